//! A scenario that shows a difference is made smaller: steps, sessions, columns, and parts of
//! statements are left out while the difference stays.

use std::time::{Duration, Instant};

use super::judge::{Class, Difference};
use super::play::{Ending, Source, Stage};
use super::script::Step;
use super::tokens::{elements, tokens, without, without_column};

/// What is reached by then is taken.
const LONGEST: Duration = Duration::from_secs(240);

/// Steps that are there already.
pub struct Fixed<'t> {
    steps: std::slice::Iter<'t, Step>,
    sessions: usize,
}

impl Fixed<'_> {
    pub fn new(steps: &[Step]) -> Fixed<'_> {
        let sessions = 1 + steps.iter().filter_map(Step::session).max().unwrap_or(0);
        Fixed { steps: steps.iter(), sessions }
    }
}

impl Source for Fixed<'_> {
    fn sessions(&self) -> usize {
        self.sessions
    }

    fn next(&mut self, _free: &[usize]) -> Option<Step> {
        self.steps.next().cloned()
    }
}

/// The smallest scenario found, and what differs in it.
pub fn shrink(
    stage: &Stage<'_, '_>,
    steps: Vec<Step>,
    difference: Difference,
) -> anyhow::Result<(Vec<Step>, Difference)> {
    let mut shrinker = Shrinker { stage, class: difference.class.clone(), steps, difference, begun: Instant::now() };
    loop {
        let before = shrinker.steps.clone();
        shrinker.fewer_steps()?;
        shrinker.fewer_sessions()?;
        shrinker.fewer_columns()?;
        shrinker.shorter_statements()?;
        if shrinker.steps == before || shrinker.is_late() {
            return Ok((shrinker.steps, shrinker.difference));
        }
    }
}

struct Shrinker<'p, 's, 'c> {
    stage: &'p Stage<'s, 'c>,
    class: Class,
    steps: Vec<Step>,
    difference: Difference,
    begun: Instant,
}

impl Shrinker<'_, '_, '_> {
    fn is_late(&self) -> bool {
        self.begun.elapsed() > LONGEST
    }

    /// Takes other steps if they show the difference, too.
    fn try_steps(&mut self, steps: Vec<Step>) -> anyhow::Result<bool> {
        if self.is_late() || steps == self.steps {
            return Ok(false);
        }
        let (played, ending) = self.stage.play(&mut Fixed::new(&steps))?;
        match ending {
            Ending::Differs(difference) if difference.class == self.class => {
                // What comes after the difference is not needed.
                self.steps = if played.len() < steps.len() { played } else { steps };
                self.difference = *difference;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn fewer_steps(&mut self) -> anyhow::Result<()> {
        let mut chunk = (self.steps.len() / 2).max(1);
        loop {
            let mut end = self.steps.len();
            while end > 0 {
                let begin = end.saturating_sub(chunk);
                let mut steps = self.steps.clone();
                if end <= steps.len() {
                    steps.drain(begin..end);
                    self.try_steps(steps)?;
                }
                end = begin;
            }
            if chunk == 1 {
                return Ok(());
            }
            chunk /= 2;
        }
    }

    /// The statements of one session are said by the one before.
    fn fewer_sessions(&mut self) -> anyhow::Result<()> {
        let last = self.steps.iter().filter_map(Step::session).max().unwrap_or(0);
        for gone in (1..=last).rev() {
            let mut steps = self.steps.clone();
            for step in &mut steps {
                if let Step::Say(statement) = step
                    && statement.session >= gone
                {
                    statement.session -= 1;
                }
            }
            self.try_steps(steps)?;
        }
        Ok(())
    }

    fn fewer_columns(&mut self) -> anyhow::Result<()> {
        for column in self.columns() {
            let mut steps = self.steps.clone();
            for step in &mut steps {
                if let Step::Say(statement) = step {
                    statement.sql = without_column(&statement.sql, &column);
                }
            }
            self.try_steps(steps)?;
        }
        Ok(())
    }

    /// The words that begin an element of a definition.
    fn columns(&self) -> Vec<String> {
        let mut columns = Vec::new();
        for step in &self.steps {
            let Step::Say(statement) = step else { continue };
            if !statement.sql.starts_with("CREATE") {
                continue;
            }
            let tokens = tokens(&statement.sql);
            for pair in tokens.windows(2) {
                let name = pair[1].trim().to_owned();
                if ["(", ","].contains(&pair[0].trim()) && !columns.contains(&name) {
                    columns.push(name);
                }
            }
        }
        columns
    }

    fn shorter_statements(&mut self) -> anyhow::Result<()> {
        for at in 0..self.steps.len() {
            self.fewer_elements(at)?;
            for chunk in [16, 8, 4, 3, 2, 1] {
                self.fewer_tokens(at, chunk)?;
            }
        }
        Ok(())
    }

    fn sql(&self, at: usize) -> Option<String> {
        match self.steps.get(at) {
            Some(Step::Say(statement)) => Some(statement.sql.clone()),
            _ => None,
        }
    }

    fn try_sql(&mut self, at: usize, sql: String) -> anyhow::Result<bool> {
        let mut steps = self.steps.clone();
        if let Some(Step::Say(statement)) = steps.get_mut(at) {
            statement.sql = sql;
        }
        self.try_steps(steps)
    }

    fn fewer_elements(&mut self, at: usize) -> anyhow::Result<()> {
        let mut tried = 0;
        while let Some(sql) = self.sql(at) {
            let tokens = tokens(&sql);
            let elements = elements(&tokens);
            let Some(range) = elements.get(tried) else { break };
            let shorter = without(&tokens, *range);
            if shorter.is_empty() || !self.try_sql(at, shorter)? {
                tried += 1;
            }
        }
        Ok(())
    }

    fn fewer_tokens(&mut self, at: usize, chunk: usize) -> anyhow::Result<()> {
        let mut from = 1;
        while let Some(sql) = self.sql(at) {
            let tokens = tokens(&sql);
            if from + chunk > tokens.len() {
                break;
            }
            if !self.try_sql(at, without(&tokens, (from, from + chunk)))? {
                from += 1;
            }
        }
        Ok(())
    }
}
