//! What can be recorded: a kernel and its parameters, read from JSON, with a sentence for every mistake.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value as Json};

use crate::graph::GraphKind;
use crate::kernel::Kernel;
use crate::kernels::{self, GraphObject, graph};
use crate::parameter::{ParameterError, Values, suggestion, within};

/// Least last-level cache of a recording.
pub(crate) const LEAST_LLC_BYTES: u64 = 512;
const MOST_LLC_BYTES: u64 = 4 << 30;
/// What requests hold beside a kernel's own parameters: bytes of the last-level cache, scaled like the footprint.
const LLC_BYTES: &str = "llc_bytes";
/// And the share of stationary phases that is looked at; 1 is left out, as requests of older versions do.
const WINDOW_SHARE: &str = "window_share";
/// With less than this of a slice, chance decides what is seen.
const LEAST_WINDOW_SHARE: f64 = 0.01;

/// What to record; in JSON a mapping with the key `kernel` beside the kernel's own keys and `llc_bytes`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Json")]
pub struct RecordRequest {
    kernel: &'static Kernel,
    values: Values,
    llc_bytes: u64,
    window_share: f64,
}

impl PartialEq for RecordRequest {
    fn eq(&self, other: &Self) -> bool {
        self.kernel.name == other.kernel.name
            && self.values == other.values
            && self.llc_bytes == other.llc_bytes
            && self.window_share == other.window_share
    }
}

impl Serialize for RecordRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = Map::new();
        map.insert("kernel".to_owned(), self.kernel.name.into());
        for (name, value) in self.values.iter() {
            map.insert(name.to_owned(), value.document());
        }
        map.insert(LLC_BYTES.to_owned(), self.llc_bytes.into());
        if self.window_share < 1.0 {
            map.insert(WINDOW_SHARE.to_owned(), self.window_share.into());
        }
        map.serialize(serializer)
    }
}

/// Why nothing can be recorded; every message is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordError(pub String);

impl From<ParameterError> for RecordError {
    fn from(error: ParameterError) -> Self {
        Self(format!("record.{} {}", error.name, error.text))
    }
}

impl TryFrom<Json> for RecordRequest {
    type Error = RecordError;

    fn try_from(mut value: Json) -> Result<Self, RecordError> {
        let Some(map) = value.as_object_mut() else {
            return refuse(format!("record must be a mapping with the key kernel, not {value}"));
        };
        let Some(name) = map.remove("kernel") else {
            let names: Vec<&str> = kernels::names().collect();
            return refuse(format!("record.kernel is missing; choose one of {}", names.join(", ")));
        };
        let Some(kernel) = name.as_str().and_then(kernels::find) else {
            let given = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
            return refuse(format!(
                "record.kernel is {given}, which is not a kernel{}",
                suggestion(&given, kernels::names())
            ));
        };
        let known = || {
            kernel
                .parameters
                .iter()
                .map(|parameter| parameter.name)
                .chain([LLC_BYTES, WINDOW_SHARE])
        };
        for key in map.keys() {
            if !known().any(|name| name == key) {
                let near = suggestion(key, known());
                return refuse(format!("record.{key} is not a key of the kernel {}{near}", kernel.name));
            }
        }
        let missing = |field: &str| {
            RecordError(format!(
                "record for the kernel {} is not valid: missing field `{field}`",
                kernel.name
            ))
        };
        let values = Values::read(kernel.parameters, map).map_err(|error| {
            if error.missing {
                missing(&error.name)
            } else {
                error.into()
            }
        })?;
        let llc = map.get(LLC_BYTES).ok_or_else(|| missing(LLC_BYTES))?;
        let Some(llc_bytes) = llc.as_u64() else {
            return refuse(format!("record.{LLC_BYTES} is {llc}, it must be a whole number"));
        };
        let window_share = match map.get(WINDOW_SHARE) {
            None => 1.0,
            Some(given) => match given
                .as_f64()
                .filter(|share| (LEAST_WINDOW_SHARE..=1.0).contains(share))
            {
                Some(share) => share,
                None => {
                    return refuse(format!(
                        "record.{WINDOW_SHARE} is {given}, it must be from {LEAST_WINDOW_SHARE} to 1"
                    ));
                }
            },
        };
        let request = Self {
            kernel,
            values,
            llc_bytes,
            window_share,
        };
        request.check()?;
        Ok(request)
    }
}

pub(crate) fn refuse<T>(sentence: String) -> Result<T, RecordError> {
    Err(RecordError(sentence))
}

impl RecordRequest {
    /// Name of the kernel.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        self.kernel.name
    }

    /// The kernel.
    #[must_use]
    pub fn definition(&self) -> &'static Kernel {
        self.kernel
    }

    /// The kernel's parameters.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Bytes of the last-level cache.
    #[must_use]
    pub fn llc_bytes(&self) -> u64 {
        self.llc_bytes
    }

    /// Share of stationary phases that is looked at.
    #[must_use]
    pub fn window_share(&self) -> f64 {
        self.window_share
    }

    /// The same request with another last-level cache.
    #[must_use]
    pub fn with_llc_bytes(self, bytes: u64) -> Self {
        Self {
            llc_bytes: bytes,
            ..self
        }
    }

    /// Whether every number is in its range and the run fits this machine.
    ///
    /// # Errors
    /// With the key, its value and the nearest valid one.
    pub fn check(&self) -> Result<(), RecordError> {
        within(LLC_BYTES, self.llc_bytes, LEAST_LLC_BYTES, MOST_LLC_BYTES)?;
        (self.kernel.check)(&self.values)?;
        (self.kernel.check_recording)(&self.values)?;
        Ok(())
    }

    /// The objects of a kernel on a graph.
    #[must_use]
    pub(crate) fn graph_objects(&self) -> &'static [GraphObject] {
        self.kernel.graph.map_or(&[], |traits| traits.objects)
    }

    /// The one with this name.
    #[must_use]
    pub(crate) fn graph_object(&self, name: &str) -> Option<&'static GraphObject> {
        self.graph_objects().iter().find(|object| object.name == name)
    }

    /// Graph, scale and degree of a kernel on a graph.
    #[must_use]
    pub(crate) fn graph_input(&self) -> Option<(GraphKind, u32, u32)> {
        self.kernel.graph.map(|_| graph::input(&self.values))
    }
}
