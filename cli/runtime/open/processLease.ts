import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../../../core/ports/log.ts'
import type { Sealer } from '../../../core/ports/sealer.ts'
import type { Leases } from '../../../core/ports/store/leases.ts'

const PREFIX = 'process:'
const MARK_LENGTH = 16
/**
 * How long a process waits for processes with another secret to end, in ms. It is longer than the lease of a killed process
 * lasts.
 */
const PATIENCE_MS = 12_000

/**
 * Name of a process lease. It contains a fingerprint of the secret, so that other processes can detect a different secret. With
 * a different secret, a process would reject the installation's API keys and could not decrypt its data. The fingerprint is 64
 * bits of a MAC, which reveal nothing about the secret.
 */
export const processLeaseName = (sealer: Sealer, instanceId: string): string =>
  `${PREFIX}${markOf(sealer)}:${instanceId}`

const markOf = (sealer: Sealer) => sealer.mac('installation', '').toString('hex').slice(0, MARK_LENGTH)

/**
 * Waits until no process with another secret works on the database. A killed process counts until its lease expires. Call this
 * while holding this process's lease, so that of two such processes that start at once, neither continues. A process with
 * another secret does not count if it started after a process with this secret. It will not continue either, and must not block
 * this installation, however often it is restarted.
 *
 * @param leaseName name of this process's lease
 * @throws an Error with a message for the operator
 */
export async function awaitSameSecret(
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
      // A lower lease id means an earlier start.
      const { id = Infinity } = (await leases.holderOf(name)) ?? {}
      if (mark === own) firstOwn = Math.min(firstOwn, id)
      else firstOther = Math.min(firstOther, id)
    }
    return firstOther < firstOwn
  }
  for (let isFirst = true; await hasOther(); isFirst = false) {
    if (performance.now() >= untilMs)
      throw new Error(
        'A process with another secret uses this database. Give all gateways of an installation the same TOLLGATE_SECRET (or ' +
          'secretFile): with another one API keys are refused, and the headers that sellers store for their APIs cannot be read. ' +
          'To change the secret, stop all gateways first.',
      )
    if (isFirst)
      log.warn({}, 'a process with another secret uses this database, so this process waits for it to end')
    await wait(Math.min(500, patienceMs))
  }
}
