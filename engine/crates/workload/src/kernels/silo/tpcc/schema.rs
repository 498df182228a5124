//! TPC-C's tables: their keys, fields and sizes, and how they are filled (TPC-C 5.11, clauses 1.2 to 1.4 and 4.3.3).

use crate::kernels::prelude::*;
use crate::kernels::silo::slab::Slab;
use crate::kernels::silo::transaction::{Database, HEADER, Table};
use crate::kernels::silo::tree::{NODE_WORDS, Nodes, SLOTS, SPARE, Tree, sorted_bytes};
use crate::memory::Native;

/// Districts of a warehouse.
pub const DISTRICTS: u64 = 10;
/// Last names: three syllables of ten.
pub const NAMES: u64 = 1000;
/// Transactions are done in so many rounds, between which room is made for new rows.
const ROUNDS: u64 = 512;
const LEAST_ROUND: u64 = 16;
/// Most lines of an order.
pub const MOST_LINES: u64 = 15;
const DOMAIN: u64 = 0x7470_6363;

macro_rules! tables {
    ($($name:ident $number:literal $label:literal $words:literal,)*) => {
        $(#[doc = $label] pub const $name: usize = $number;)*
        /// Label and words of the fields of each table, by number. Sizes are about those of the texts in Silo's rows.
        pub const TABLES: &[(&str, usize)] = &[$(($label, $words),)*];
    };
}

tables! {
    WAREHOUSE 0 "warehouse" 12,
    DISTRICT 1 "district" 12,
    CUSTOMER 2 "customer" 68,
    HISTORY 3 "history" 6,
    NEW_ORDER 4 "new order" 2,
    ORDER 5 "order" 6,
    ORDER_BY_CUSTOMER 6 "order by customer" 2,
    ORDER_LINE 7 "order line" 6,
    ITEM 8 "item" 10,
    STOCK 9 "stock" 4,
    STOCK_DATA 10 "stock data" 36,
}
/// Index of customers by name; it has no rows of its own.
pub const CUSTOMER_BY_NAME: usize = TABLES.len();

/// Fields of warehouse: sum of payments (money is in cents), tax.
pub mod warehouse {
    /// Sum of payments.
    pub const YTD: usize = 0;
}
/// Fields of district.
pub mod district {
    /// Sum of payments.
    pub const YTD: usize = 0;
    /// Number of the next order.
    pub const NEXT_ORDER: usize = 1;
}
/// Fields of customer; the texts come last.
pub mod customer {
    /// Balance, negative as two's complement.
    pub const BALANCE: usize = 0;
    /// Sum of payments.
    pub const YTD: usize = 1;
    /// Payments.
    pub const PAYMENTS: usize = 2;
    /// Deliveries.
    pub const DELIVERIES: usize = 3;
    /// 1 for the tenth with bad credit, whose payments are noted in the text.
    pub const BAD: usize = 4;
    /// The text, of up to 500 characters.
    pub const TEXT: usize = 6;
}
/// Fields of order.
pub mod order {
    /// Customer.
    pub const CUSTOMER: usize = 0;
    /// Carrier from 1; 0 before the delivery.
    pub const CARRIER: usize = 1;
    /// Lines.
    pub const LINES: usize = 2;
}
/// Fields of order line.
pub mod line {
    /// Item.
    pub const ITEM: usize = 0;
    /// When it was delivered; 0 before.
    pub const DELIVERED: usize = 2;
    /// Price of all pieces.
    pub const AMOUNT: usize = 4;
}
/// Fields of stock.
pub mod stock {
    /// Pieces.
    pub const QUANTITY: usize = 0;
    /// Pieces sold.
    pub const YTD: usize = 1;
    /// Orders.
    pub const ORDERS: usize = 2;
}

/// Sizes of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u64,
    /// Items.
    pub items: u64,
    /// Customers of a district, and orders that are loaded.
    pub customers: u64,
    /// Transactions.
    pub transactions: u64,
}

impl Scale {
    /// The sizes that the parameters ask for.
    #[must_use]
    pub fn of(values: &Values) -> Self {
        Self {
            warehouses: values.int("warehouses"),
            items: values.int("items"),
            customers: values.int("customers"),
            transactions: values.int("transactions"),
        }
    }

    /// First order of a district that is not delivered when the run starts.
    #[must_use]
    pub fn first_undelivered(&self) -> u64 {
        self.customers * 7 / 10 + 1
    }

    /// Transactions between two times of making room.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.transactions.div_ceil(ROUNDS).max(LEAST_ROUND)
    }

    /// Rows that a run adds to a table in the mean.
    fn added(&self, table: usize) -> f64 {
        // One in a hundred of the 45 order entries is taken back; an order has ten lines in the mean.
        let percent = match table {
            HISTORY => 43.0,
            ORDER | ORDER_BY_CUSTOMER | NEW_ORDER => 44.55,
            ORDER_LINE => 445.5,
            _ => 0.0,
        };
        self.transactions as f64 * percent / 100.0
    }

    /// Rows of a table when loaded.
    fn loaded(&self, table: usize) -> u64 {
        let districts = self.warehouses * DISTRICTS;
        let orders = districts * self.customers;
        match table {
            WAREHOUSE => self.warehouses,
            DISTRICT => districts,
            CUSTOMER | HISTORY | ORDER | ORDER_BY_CUSTOMER => orders,
            NEW_ORDER => districts * (self.customers + 1 - self.first_undelivered()),
            ORDER_LINE => orders * 10,
            ITEM => self.items,
            _ => self.warehouses * self.items,
        }
    }

    /// Rows of a table when loaded, and those added: four standard deviations above the mean, and room for a round that
    /// adds all it can.
    #[must_use]
    pub fn rows(&self, table: usize) -> (u64, u64) {
        let mean = self.added(table);
        if mean == 0.0 {
            return (self.loaded(table), 0);
        }
        // Lines come 5 to 15 at a time, which makes their number vary 11 times as much as single ones would.
        let (most, spread) = if table == ORDER_LINE {
            (MOST_LINES, 11.0)
        } else {
            (1, 1.0)
        };
        let added = (mean + 4.0 * (mean * spread).sqrt()) as u64 + self.round() * most;
        (self.loaded(table), added)
    }

    /// Leaves and inner nodes of all indexes when loaded, and those added.
    #[must_use]
    pub fn nodes(&self) -> [(u64, u64); 2] {
        let node = NODE_WORDS as u64 * 8;
        let (mut leaves, mut inner, mut added) = (0, 0, 0.0);
        let tables = (0..TABLES.len()).map(|table| (self.loaded(table), self.added(table)));
        for (loaded, more) in tables.chain([(self.loaded(CUSTOMER), 0.0)]) {
            let (leaf_bytes, inner_bytes) = sorted_bytes(loaded);
            leaves += leaf_bytes / node;
            inner += inner_bytes / node - SPARE as u64;
            // Keys that rise within a district, but not over all, leave leaves behind that were split in the middle.
            added += more / SLOTS.div_ceil(2) as f64;
        }
        // History rises over all, and leaves full ones behind.
        let history = self.added(HISTORY);
        added -= history / SLOTS.div_ceil(2) as f64 - history / SLOTS as f64;
        let added = added as u64 + self.splits();
        [(leaves, added), (inner + SPARE as u64, added / 8 + self.splits())]
    }

    /// Most splits of leaves in a round: the lines of an order lie side by side.
    #[must_use]
    pub fn splits(&self) -> u64 {
        5 * self.round()
    }

    /// The objects: tables first, then leaves and inner nodes.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectSpec> {
        let spec = |name, (loaded, added): (u64, u64), words: usize| {
            let bytes = words as u32 * 8;
            // Told how much memory to take, Silo reserves each core's share in one piece before it fills it.
            let spec = ObjectSpec::new(name, (loaded + added) * u64::from(bytes), bytes).mapping(Mapping::Arena);
            spec.built()
        };
        let mut specs: Vec<ObjectSpec> = TABLES
            .iter()
            .enumerate()
            .map(|(table, (name, words))| spec(name, self.rows(table), HEADER + words))
            .collect();
        let [leaves, inner] = self.nodes();
        specs.push(spec("leaves", leaves, NODE_WORDS));
        specs.push(spec("inner nodes", inner, NODE_WORDS));
        specs
    }
}

/// Key of a warehouse, or of a district (from 0) of one.
#[must_use]
pub fn place(warehouse: u64, district: u64) -> u64 {
    warehouse << 48 | district << 44
}

/// Key of a customer or an order; lines of an order follow it.
#[must_use]
pub fn numbered(warehouse: u64, district: u64, number: u64) -> u64 {
    place(warehouse, district) | number << 8
}

/// Key under which the orders of a customer are found, the newest first.
#[must_use]
pub fn by_customer(warehouse: u64, district: u64, customer: u64, order: u64) -> u64 {
    const ORDERS: u64 = (1 << 27) - 1;
    place(warehouse, district) | customer << 27 | (ORDERS - order)
}

/// Key under which customers of a name are found, by a first name that is drawn from their number.
#[must_use]
pub fn by_name(warehouse: u64, district: u64, name: u64, customer: u64) -> u64 {
    let first = crate::kernels::popularity::scrambled(customer) >> 50;
    place(warehouse, district) | name << 34 | first << 20 | customer
}

/// First key of the customers of a name.
#[must_use]
pub fn name_start(warehouse: u64, district: u64, name: u64) -> u64 {
    place(warehouse, district) | name << 34
}

/// Key of an item's stock in a warehouse.
#[must_use]
pub fn stocked(warehouse: u64, item: u64) -> u64 {
    warehouse << 32 | item
}

/// The non-uniform draw of clause 2.1.6 from `least` to `most`.
pub fn non_uniform(rng: &mut CounterRng, a: u64, least: u64, most: u64) -> u64 {
    // The constant that runs are free to choose.
    let constant = a / 3;
    let both = rng.below(a + 1) | (least + rng.below(most - least + 1));
    (both + constant) % (most - least + 1) + least
}

/// The mask of the non-uniform draw of customers: 1023 for 3000, in proportion for fewer.
#[must_use]
pub fn customer_mask(customers: u64) -> u64 {
    (customers / 3).next_power_of_two().max(2) - 1
}

/// The mask of the non-uniform draw of items: 8191 for 100 000, in proportion for fewer.
#[must_use]
pub fn item_mask(items: u64) -> u64 {
    (items / 13).next_power_of_two().max(2) - 1
}

/// A database as clause 4.3.3 wants it.
pub fn load<M: Memory>(memory: &mut M, scale: &Scale, seed: u64) -> Database {
    let specs = scale.objects();
    let [leaves, inner] = scale.nodes();
    let slab = |spec: &ObjectSpec, words, (loaded, added): (u64, u64)| {
        Slab::new(spec.clone(), words, loaded as usize, added as usize)
    };
    let mut nodes = Nodes {
        leaves: slab(&specs[TABLES.len()], NODE_WORDS, leaves),
        inner: slab(&specs[TABLES.len() + 1], NODE_WORDS, inner),
    };
    let mut tables = Vec::new();
    for (number, (_, words)) in TABLES.iter().enumerate() {
        let rows = slab(&specs[number], HEADER + words, scale.rows(number));
        let index = Tree::new(memory, &mut nodes);
        tables.push(Table { rows, index });
    }
    // Without rows: nothing is ever reserved for it.
    let rows = Slab::new(specs[CUSTOMER].clone(), HEADER, 0, 0);
    let index = Tree::new(memory, &mut nodes);
    tables.push(Table { rows, index });
    let mut base = Database { nodes, tables };
    let mut rng = CounterRng::new(seed, &[DOMAIN]);

    for item in 0..scale.items {
        base.load(memory, ITEM, item, &[100 + rng.below(9901)]);
    }
    for w in 0..scale.warehouses {
        let paid = DISTRICTS * scale.customers * 1000;
        base.load(memory, WAREHOUSE, place(w, 0), &[paid, rng.below(2001)]);
        for item in 0..scale.items {
            base.load(memory, STOCK, stocked(w, item), &[10 + rng.below(91), 0, 0, 0]);
        }
        for item in 0..scale.items {
            base.load(memory, STOCK_DATA, stocked(w, item), &[item]);
        }
        for d in 0..DISTRICTS {
            let fields = [scale.customers * 1000, scale.customers + 1, rng.below(2001)];
            base.load(memory, DISTRICT, place(w, d), &fields);
            load_customers(memory, &mut base, scale, &mut rng, (w, d));
            load_orders(memory, &mut base, scale, &mut rng, (w, d));
        }
    }
    base
}

fn load_customers<M: Memory>(
    memory: &mut M,
    base: &mut Database,
    scale: &Scale,
    rng: &mut CounterRng,
    (w, d): (u64, u64),
) {
    for c in 1..=scale.customers {
        let bad = u64::from(rng.below(10) == 0);
        let fields = [(-1000i64) as u64, 1000, 1, 0, bad];
        let row = base.load(memory, CUSTOMER, numbered(w, d, c), &fields);
        let name = if c <= NAMES {
            c - 1
        } else {
            non_uniform(rng, 255, 0, NAMES - 1)
        };
        base.nodes.reserve_one(memory);
        let names = &base.tables[CUSTOMER_BY_NAME].index;
        names.insert(&mut Native, &base.nodes, by_name(w, d, name, c), row);
        base.load(memory, HISTORY, numbered(w, d, c), &[w, d, w, d, c, 1000]);
    }
}

fn load_orders<M: Memory>(
    memory: &mut M,
    base: &mut Database,
    scale: &Scale,
    rng: &mut CounterRng,
    (w, d): (u64, u64),
) {
    let mut customers: Vec<u64> = (1..=scale.customers).collect();
    for last in (1..customers.len()).rev() {
        customers.swap(last, rng.below(last as u64 + 1) as usize);
    }
    for (o, c) in (1..).zip(&customers) {
        let delivered = o < scale.first_undelivered();
        let lines = 5 + rng.below(11);
        let carrier = if delivered { 1 + rng.below(10) } else { 0 };
        base.load(memory, ORDER, numbered(w, d, o), &[*c, carrier, lines, 1, 1]);
        if !delivered {
            base.load(memory, NEW_ORDER, numbered(w, d, o), &[o]);
        }
        for number in 1..=lines {
            let (item, amount) = (rng.below(scale.items), 1 + rng.below(999_999));
            let (when, amount) = if delivered { (1, 0) } else { (0, amount) };
            let fields = [item, w, when, 5, amount];
            base.load(memory, ORDER_LINE, numbered(w, d, o) | number, &fields);
        }
    }
    // In the order of their keys, so that the index is full like the others.
    let mut orders: Vec<(u64, u64)> = (1..).zip(customers).map(|(o, c)| (c, o)).collect();
    orders.sort_unstable();
    for (c, o) in orders {
        base.load(memory, ORDER_BY_CUSTOMER, by_customer(w, d, c, o), &[o]);
    }
}
