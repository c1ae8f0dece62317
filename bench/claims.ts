import pg from 'pg'
import type { Bench, BenchContext } from './bench.ts'
import { median } from './harness/median.ts'
import { postgresUrl } from './scale/target.ts'
import type { Measured } from './stats.ts'

interface Sample {
  readonly perSecond: number
  readonly cpuUs: number
}

/**
 * Claims on disk (SQLite, WAL, synchronous=FULL), 64 at once, in groups and one commit each; and in PostgreSQL, 256 at once, where a server is there. On
 * the wall clock, because it is the disk that is waited for; both CPUs are theirs, as in life.
 */
export const claims: Bench = {
  keys: ['claims_per_s', 'claims_group_vs_single', 'pg_claims_per_s'],
  async run({ servers, isQuick, rounds, wants, progress }) {
    const seconds = isQuick ? 0.5 : 3
    const take = (maxRows: number) =>
      servers.job<Sample>('claimRate.ts', { seconds, maxRows, folder: servers.folder() }, 'unpinned')
    const group: Sample[] = []
    const single: Sample[] = []
    for (let round = 0; round < rounds; round++) {
      group.push(await take(32))
      if (wants('claims_group_vs_single')) single.push(await take(1))
    }
    const rate = (samples: readonly Sample[]) => median(samples.map((sample) => sample.perSecond))
    const measured: Measured = { claims_per_s: rate(group) }
    const cpu = median(group.map((sample) => sample.cpuUs))
    progress(`claims: ${rate(group).toFixed(0)}/s in groups, ${cpu.toFixed(0)} µs of CPU each`)
    if (single.length > 0) {
      progress(`claims: ${rate(single).toFixed(0)}/s with a commit each`)
      measured.claims_group_vs_single = median(group.map((g, i) => g.perSecond / single[i]!.perSecond))
    }
    if (wants('pg_claims_per_s'))
      measured.pg_claims_per_s = await inPostgres(servers, seconds, rounds, progress)
    return measured
  },
}

async function inPostgres(
  servers: BenchContext['servers'],
  seconds: number,
  rounds: number,
  progress: BenchContext['progress'],
): Promise<number | null> {
  if (!(await respond())) return null
  const samples: Sample[] = []
  for (let round = 0; round < rounds; round++)
    samples.push(await servers.job<Sample>('claimRate.ts', { seconds, postgresUrl, atOnce: 256 }, 'unpinned'))
  const rate = median(samples.map(({ perSecond }) => perSecond))
  const cpu = median(samples.map(({ cpuUs }) => cpuUs))
  progress(`claims: ${rate.toFixed(0)}/s in PostgreSQL, ${cpu.toFixed(0)} µs of the gateway's CPU each`)
  return rate
}

async function respond(): Promise<boolean> {
  const client = new pg.Client({ connectionString: postgresUrl, connectionTimeoutMillis: 2_000 })
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}
