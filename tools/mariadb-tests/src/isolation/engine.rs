//! The engines that are looked at.

/// The engine that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    Holdfast,
    Innodb,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Holdfast => "HOLDFAST",
            Engine::Innodb => "InnoDB",
        }
    }
}
