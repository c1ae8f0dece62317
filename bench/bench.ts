import type { RoundOptions } from './harness/rounds.ts'
import { Servers } from './harness/servers.ts'
import type { StoreName } from './scale/target.ts'
import type { Measured, StatKey } from './stats.ts'

/** What a bench is given. */
export interface BenchContext extends RoundOptions {
  /** Stopped when the bench ends, also after a failure. */
  readonly servers: Servers
  readonly isQuick: boolean
  /** Of bench/scale.ts: a folder that was filled before; it is written to. */
  readonly filledFolder?: string | undefined
  /** Of bench/scale.ts: the database that the gateway is measured on. */
  readonly storeName?: StoreName | undefined
  /** Whether the run was asked for this figure; a bench leaves out the peers of the others. */
  wants(key: StatKey): boolean
}

/** A file of this folder that measures some of the figures. */
export interface Bench {
  readonly keys: readonly StatKey[]
  run(context: BenchContext): Promise<Measured>
}

/** Runs a bench and stops its servers. */
export async function runBench(bench: Bench, context: Omit<BenchContext, 'servers'>): Promise<Measured> {
  const servers = new Servers(context.machine)
  try {
    return await bench.run({ ...context, servers })
  } finally {
    await servers.stop()
  }
}
