//! Which sources are opened for a policy.

use tiertune_host::HostError;
use tiertune_host::source::{Known, Setup, Signals, Source};
use tiertune_policy::{Event, Needs, SamplerRequest};

use crate::signals::together;

/// Sources that were opened, and those that were not, with the reason.
#[derive(Default)]
pub struct Chosen {
    /// Under way.
    pub sources: Vec<Box<dyn Source>>,
    /// Name and reason.
    pub not_used: Vec<(String, String)>,
}

impl Chosen {
    /// All that they offer.
    #[must_use]
    pub fn signals(&self) -> Signals {
        together(self.sources.iter().map(|source| source.signals()))
    }

    /// Their names, for sentences.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.sources.iter().map(|source| source.name()).collect();
        names.join(" and ")
    }
}

/// What a policy lacks still, given what there is.
#[derive(Debug, Clone, Copy, Default)]
struct Lack {
    samples: [bool; 3],
    hint_faults: bool,
    bits: bool,
}

const EVENTS: [Event; 3] = [Event::LoadMiss, Event::SlowLoadMiss, Event::Store];

fn lack(requests: &[SamplerRequest], needs: Needs, have: &Signals) -> Lack {
    let offered = [have.load_misses, have.slow_load_misses || have.load_misses, have.stores];
    let samples =
        std::array::from_fn(|place| requests.iter().any(|request| request.event == EVENTS[place]) && !offered[place]);
    let hint_faults = needs.hint_faults && !have.hint_faults;
    let any_bits = have.accessed_bits || have.written_bits;
    let wanted = needs.accessed_bits || hint_faults || samples.contains(&true);
    Lack {
        samples,
        hint_faults,
        bits: wanted && !any_bits,
    }
}

/// Opens what works, in the order of `known`: first what offers a signal as it is, then bits for what has to be made up.
#[must_use]
pub fn automatic(known: &[Known], requests: &[SamplerRequest], needs: Needs, setup: &Setup) -> Chosen {
    let mut chosen = Chosen::default();
    let useful: [fn(&Lack, &Signals) -> bool; 2] = [
        |lack, offer| {
            let offered = [
                offer.load_misses,
                offer.slow_load_misses || offer.load_misses,
                offer.stores,
            ];
            lack.samples.iter().zip(offered).any(|(lacks, has)| *lacks && has) || lack.hint_faults && offer.hint_faults
        },
        |lack, offer| lack.bits && (offer.accessed_bits || offer.written_bits),
    ];
    for useful in useful {
        for known in known {
            let now = lack(requests, needs, &chosen.signals());
            let taken = chosen.sources.iter().any(|source| source.name() == known.name);
            let tried = chosen.not_used.iter().any(|(name, _)| name == known.name);
            if taken || tried || !useful(&now, &known.signals) {
                continue;
            }
            match (known.probe)().and_then(|()| (known.open)(setup)) {
                Ok(source) => chosen.sources.push(source),
                Err(error) => chosen.not_used.push((known.name.to_owned(), error.to_string())),
            }
        }
    }
    chosen
}

/// Opens those that were named.
///
/// # Errors
/// When one of them does not work here.
pub fn named(known: &[Known], names: &[String], setup: &Setup) -> Result<Chosen, HostError> {
    let mut chosen = Chosen::default();
    for name in names {
        let Some(known) = known.iter().find(|known| known.name == name) else {
            return Err(HostError::Wrong(format!("there is no source '{name}'")));
        };
        (known.probe)()?;
        chosen.sources.push((known.open)(setup)?);
    }
    Ok(chosen)
}
