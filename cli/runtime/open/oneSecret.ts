import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../../../core/ports/log.ts'
import type { Sealer } from '../../../core/ports/sealer.ts'
import type { Leases } from '../../../core/ports/store/leases.ts'

const PREFIX = 'process:'
const MARK_LENGTH = 16
/** Longer than a lease lasts whose process is gone. */
const PATIENCE_MS = 12_000

/**
 * The lease of a process, named so that others see which secret it has: one with another secret would refuse the API keys of the installation and
 * could not open what is sealed. 64 bits of a MAC say nothing of the secret itself.
 */
export const processLeaseName = (sealer: Sealer, instanceId: string): string =>
  `${PREFIX}${markOf(sealer)}:${instanceId}`

const markOf = (sealer: Sealer) => sealer.mac('installation', '').toString('hex').slice(0, MARK_LENGTH)

/**
 * Waits until no process of the installation has another secret: those that were killed on another machine count for some seconds
 * longer. To be asked with the own lease in hand: of two that begin at once, neither goes on. Those that came to one of this secret do
 * not count: they will not begin, and however often they are started, they keep nobody out who belongs here.
 *
 * @param leaseName of this process
 * @throws an Error in words
 */
export async function awaitOneSecret(
  leases: Leases,
  sealer: Sealer,
  leaseName: string,
  log: Log,
  patienceMs = PATIENCE_MS,
): Promise<void> {
  const untilMs = performance.now() + patienceMs
  const own = markOf(sealer)
  const hasOther = async () => {
    let [firstOwn, firstOther] = [Infinity, Infinity]
    for (const name of await leases.heldNames(PREFIX)) {
      if (name === leaseName) continue
      const [, mark] = name.split(':')
      // Numbers of leases grow.
      const { id = Infinity } = (await leases.holderOf(name)) ?? {}
      if (mark === own) firstOwn = Math.min(firstOwn, id)
      else firstOther = Math.min(firstOther, id)
    }
    return firstOther < firstOwn
  }
  for (let isFirst = true; await hasOther(); isFirst = false) {
    if (performance.now() >= untilMs)
      throw new Error(
        'A process with another secret works on this database. Give all gateways of an installation the same TOLLGATE_SECRET (or ' +
          'secretFile): with another one API keys are refused, and the headers that sellers store for their APIs can not be read. ' +
          'To change it, stop all of them first.',
      )
    if (isFirst) log.warn({}, 'a process with another secret has this database; waiting for its end')
    await wait(Math.min(500, patienceMs))
  }
}
