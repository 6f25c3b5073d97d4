//! Every namespace that there is.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;
use auth_gateway::health::Lifecycle;
use auth_gateway::http::Front;
use iam_adapters::ResilientAdapter;
use iam_adapters::clock::ShiftedClock;
use thiserror::Error;

use crate::iam::Mock;
use crate::snapshots::{Snapshot, Snapshots};
use crate::{LogoutReceiver, Name};

/// A namespace: an IAM, its time, and the gateway before it.
#[derive(Debug)]
pub struct World {
    /// What it is called.
    pub name: Name,
    /// The IAM.
    pub mock: Arc<Mock>,
    /// The time, of the IAM and of its gateway.
    pub clock: Arc<ShiftedClock>,
    /// Who is told when a session ends at the IAM.
    pub receiver: Arc<dyn LogoutReceiver>,
    /// The gateway; none where the IAM is alone, and asked over the wire.
    pub house: Option<House>,
    /// How it was, as often as somebody wanted that kept.
    pub snapshots: Arc<Snapshots>,
}

/// The gateway of a namespace.
#[derive(Debug)]
pub struct House {
    /// What the handlers of its requests share.
    pub front: Arc<Front>,
    /// Its way to the IAM.
    pub iam: Arc<ResilientAdapter>,
}

/// Makes a namespace as it is at the start: its users, no session, no fault, real time.
pub type Founder = Box<dyn Fn(&Name) -> World + Send + Sync>;

/// There are as many namespaces as there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there are {0} namespaces already; forget those that are no longer needed")]
pub struct TooMany(pub usize);

/// Why a namespace was not forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Forgetting {
    /// There is none of this name.
    #[error("there is no such namespace")]
    Unknown,
    /// It is the one of those who name none.
    #[error("the default namespace stays")]
    Default,
}

/// All namespaces. One begins when it is first asked for.
pub struct Namespaces {
    founder: Founder,
    /// Apart, because most requests go there.
    default: ArcSwap<World>,
    /// What the default one is called besides.
    alias: Option<Name>,
    named: RwLock<HashMap<Name, Arc<World>>>,
    lifecycle: Lifecycle,
}

impl Namespaces {
    /// The most of them, those without a name included.
    pub const MAX: usize = 4096;

    /// The default namespace alone, and how others are made; `lifecycle` is that of the process.
    #[must_use]
    pub fn new(default: World, founder: Founder, lifecycle: Lifecycle) -> Self {
        Self {
            founder,
            default: ArcSwap::from_pointee(default),
            alias: None,
            named: RwLock::default(),
            lifecycle,
        }
    }

    /// The same, with another name for the default namespace: that of its realm.
    #[must_use]
    pub fn also_called(self, alias: Option<Name>) -> Self {
        Self { alias, ..self }
    }

    /// How near the process is to its end.
    #[must_use]
    pub const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn is_default(&self, name: &Name) -> bool {
        self.default.load().name == *name || self.alias.as_ref() == Some(name)
    }

    /// The namespace of those who name none.
    #[must_use]
    pub fn default_world(&self) -> Arc<World> {
        self.default.load_full()
    }

    /// The namespace of this name, which begins now where there was none.
    ///
    /// # Errors
    ///
    /// [`TooMany`].
    pub fn begin(&self, name: &Name) -> Result<Arc<World>, TooMany> {
        if let Some(world) = self.find(name) {
            return Ok(world);
        }
        let mut named = self.write();
        if let Some(world) = named.get(name) {
            return Ok(Arc::clone(world));
        }
        if named.len() + 1 >= Self::MAX {
            return Err(TooMany(Self::MAX));
        }
        let world = Arc::new((self.founder)(name));
        named.insert(name.clone(), Arc::clone(&world));
        Ok(world)
    }

    /// The namespace of this name, where there is one.
    #[must_use]
    pub fn find(&self, name: &Name) -> Option<Arc<World>> {
        if self.is_default(name) {
            return Some(self.default_world());
        }
        self.read().get(name).cloned()
    }

    /// Every namespace, by name, the default one first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<World>> {
        let mut named: Vec<_> = self.read().values().cloned().collect();
        named.sort_by(|one, other| one.name.cmp(&other.name));
        named.insert(0, self.default_world());
        named
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.read().len() + 1
    }

    /// Makes a namespace as it was at the start, with a gateway that knows nothing.
    ///
    /// # Errors
    ///
    /// [`TooMany`], where it is not there yet and there is no room.
    pub fn reset(&self, name: &Name) -> Result<Arc<World>, TooMany> {
        self.begin(name)?;
        let world = Arc::new((self.founder)(name));
        self.put(Arc::clone(&world));
        Ok(world)
    }

    /// Forgets every namespace, and makes the default one as it was at the start.
    pub fn reset_all(&self) {
        self.write().clear();
        let name = self.default.load().name.clone();
        self.put(Arc::new((self.founder)(&name)));
    }

    /// Puts a namespace back into a snapshot, with a gateway that knows nothing.
    pub fn restore(&self, world: &World, snapshot: &Snapshot) {
        let mut restored = (self.founder)(&world.name);
        snapshot.put_into(&restored);
        restored.snapshots = Arc::clone(&world.snapshots);
        self.put(Arc::new(restored));
    }

    /// Forgets a namespace.
    ///
    /// # Errors
    ///
    /// [`Forgetting`].
    pub fn forget(&self, name: &Name) -> Result<(), Forgetting> {
        if self.is_default(name) {
            return Err(Forgetting::Default);
        }
        let forgotten = self.write().remove(name);
        forgotten.map(|_| ()).ok_or(Forgetting::Unknown)
    }

    /// Puts a world in the place of the one of the same name, which requests under way still have.
    fn put(&self, world: Arc<World>) {
        if self.default.load().name == world.name {
            self.default.store(world);
        } else {
            self.write().insert(world.name.clone(), world);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Name, Arc<World>>> {
        self.named.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Name, Arc<World>>> {
        self.named.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespaces({})", self.count())
    }
}
