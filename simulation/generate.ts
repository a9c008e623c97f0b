/** Generates a scenario from a seed. */
import { withBlocks } from './generate-blocks.js'
import { withCalendar } from './generate-calendar.js'
import { generateFaults, type Profile, profileOf } from './generate-faults.js'
import { withMetered } from './generate-metered.js'
import { withPlaces } from './generate-places.js'
import { withReservations } from './generate-reservations.js'
import { generateRules } from './generate-rules.js'
import { generateTraffic } from './generate-traffic.js'
import { Random } from './random.js'
import type { NodeSpec, Scenario, Settings } from './scenario.js'

/** 2026-01-01; any time would do. */
const START_US = 1_767_225_600_000_000
const DAY_US = 86_400_000_000
const WALL_AHEAD_MS_MAX = 5000
const DRIFT_PPM_MAX = 500
const STORE_DRIFT_PPM_MAX = 100
/** Blocks have random numbers of their own, so that they change nothing else of a seed. */
const BLOCKS_SEED = 0x10000000
/** So have metered takes, which two seeds in three have, and reservations, which one has. */
const METERED_SEED = 0x20000000
const RESERVATIONS_SEED = 0x30000000
const TURNS = 3
/** So have calls in flight. */
const PLACES_SEED = 0x40000000
const PLACED = 0.4
/** So have windows that follow a calendar. */
const CALENDAR_SEED = 0x50000000
const FOLLOWING = 0.25

export function generateScenario(seed: number): Scenario {
  const plain = generatePlain(seed)
  const days = new Random(seed + CALENDAR_SEED)
  const scenario = days.chance(FOLLOWING) ? withCalendar(days, plain) : plain
  const places = new Random(seed + PLACES_SEED)
  return places.chance(PLACED) ? withPlaces(places, scenario) : scenario
}

/** Generates a scenario whose calls end at once, and whose windows have a fixed length. */
function generatePlain(seed: number): Scenario {
  const random = new Random(seed)
  const profile = profileOf(seed)
  const settings = generateSettings(random, profile)
  const nodes = generateNodes(random, profile, settings)
  const rules = withBlocks(new Random(seed + BLOCKS_SEED), generateRules(random, nodes.length))
  const faults = generateFaults(random, { profile, settings, nodes, rules })
  const traffic = generateTraffic(random, { settings, nodes, rules, faults })
  const scenario = { seed, settings, rules, nodes, traffic, faults }
  if (seed % TURNS === 0) return scenario
  const metered = withMetered(new Random(seed + METERED_SEED), scenario)
  if (seed % TURNS === 2) return metered
  return withReservations(new Random(seed + RESERVATIONS_SEED), metered)
}

function generateSettings(random: Random, profile: Profile): Settings {
  const isSlow = profile === 'slow' || profile === 'all'
  return {
    startUs: START_US + random.int(0, DAY_US),
    lengthMs: random.int(1500, 5000),
    denyCacheMs: random.chance(0.5) ? 0 : 1000,
    deadlineMs: random.chance(0.2) ? 50 : 20,
    delayMs: random.int(1, isSlow ? 40 : 8) / 10,
    jitterMs: random.int(1, isSlow ? 100 : 5) / 10,
    storeAheadMs: random.int(-1000, 1000),
    storeDriftPpm: random.int(-STORE_DRIFT_PPM_MAX, STORE_DRIFT_PPM_MAX),
  }
}

function generateNodes(random: Random, profile: Profile, { lengthMs }: Settings): NodeSpec[] {
  const joins = profile === 'join' || profile === 'all'
  const count = joins ? random.int(2, 6) : random.int(1, 5)
  return Array.from({ length: count }, (_, i) => ({
    name: `n${i}`,
    joinsMs: joins && i > 0 && random.chance(0.5) ? random.int(1, lengthMs) : 0,
    wallAheadMs: random.int(-WALL_AHEAD_MS_MAX, WALL_AHEAD_MS_MAX),
    wallDriftPpm: random.int(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
    monotonicDriftPpm: random.int(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
  }))
}
