//! What nearly every kernel uses.

pub use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

pub use tiertune_policy::CounterRng;

pub use crate::class::AccessClass;
pub use crate::kernel::{Check, Metric, Program, Role};
pub use crate::memory::{Array, Layout, Mapping, Memory, ObjectId, ObjectSpec, Phase, Unit};
pub use crate::parameter::{Default, Parameter, ParameterError, Values, within};
pub use crate::shared::SharedArray;
