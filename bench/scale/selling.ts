import { join } from 'node:path'
import type { BenchContext } from '../bench.ts'
import { runLoad } from '../harness/load.ts'
import { median } from '../harness/median.ts'
import { price } from '../servers/offer.ts'
import type { Place } from './target.ts'

/** Claims that wait for each other's commit at once, as many as a busy gateway has. */
const claimsAtOnce = { sqlite: 64, postgres: 256 } as const

/** How many payments a store takes claims of in a second, by the clock, and what each costs this process. */
export async function claimsIn(
  { store, at }: Place,
  { servers, isQuick, rounds }: BenchContext,
): Promise<{ readonly perSecond: number; readonly cpuUs: number }> {
  const samples: { perSecond: number; cpuUs: number }[] = []
  for (let round = 0; round < rounds; round++) {
    const options = { ...at, seconds: isQuick ? 0.5 : 3, atOnce: claimsAtOnce[store] }
    samples.push(await servers.job('claimRate.ts', options, 'unpinned'))
  }
  return {
    perSecond: median(samples.map(({ perSecond }) => perSecond)),
    cpuUs: median(samples.map(({ cpuUs }) => cpuUs)),
  }
}

/**
 * Paid calls through the whole pipeline by 64 buyers at once, each a distinct signature, with a chain that says yes at once: how many
 * a second, by the clock, and CPU of the gateway and of the database for each. The database is on the same machine.
 */
export async function paidCallsIn(
  { at, databaseCpu }: Place,
  upstreamPort: number,
  { machine, servers, isQuick, rounds, progress }: BenchContext,
): Promise<{ readonly perSecond: number; readonly cpuUs: number; readonly databaseUs: number | null }> {
  const folder = servers.folder()
  const links = [{ slug: 'paid', path: '/1k', price }]
  const gateway = await servers.start('gateway.ts', { ...at, upstreamPort, folder, links })
  const samples: { perSecond: number; cpuUs: number; databaseUs: number | null }[] = []
  const [count, warmUps] = isQuick ? [1_000, 1] : [8_000, 5]
  for (let round = -warmUps; round < rounds; round++) {
    const paymentFile = join(folder, `payments-${round}`)
    await servers.job('signPayments.ts', { files: [{ file: paymentFile, count }] }, 'unpinned')
    const [cpuBefore, databaseBefore] = [gateway.cpu(), await databaseCpu()]
    const load = { path: '/api/link/demo/paid', paymentFile, isAwake: true } as const
    const { requests, refused, broken, seconds } = await runLoad(machine, gateway.port, load, 60)
    if (requests !== count || refused + broken > 0)
      throw new Error(
        `Of ${count} paid calls ${requests} were answered, ${refused} refused, ${broken} broken.`,
      )
    if (round < 0) continue
    const databaseAfter = await databaseCpu()
    samples.push({
      perSecond: requests / seconds,
      cpuUs: ((gateway.cpu() - cpuBefore) / requests) * 1e6,
      databaseUs: databaseAfter && (spent(databaseBefore, databaseAfter) / requests) * 1e6,
    })
  }
  await gateway.stop()
  const spread = samples.map(({ perSecond }) => perSecond.toFixed(0)).join(', ')
  progress(`  paid calls a second, by round: ${spread}`)
  const databaseUs = samples.flatMap((one) => one.databaseUs ?? [])
  return {
    perSecond: median(samples.map(({ perSecond }) => perSecond)),
    cpuUs: median(samples.map(({ cpuUs }) => cpuUs)),
    databaseUs: databaseUs.length === 0 ? null : median(databaseUs),
  }
}

/** Of connections that were made meanwhile all of it. */
function spent(before: ReadonlyMap<number, number> | null, after: ReadonlyMap<number, number>): number {
  return [...after].reduce((sum, [pid, seconds]) => sum + seconds - (before?.get(pid) ?? 0), 0)
}
