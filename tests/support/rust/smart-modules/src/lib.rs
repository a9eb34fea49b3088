//! SmartModules for the tests, as Fluvio's documents have them: each example is one.
