import { type NetworkId, networkTitle } from '../../core/domain/network.ts'
import type { Log } from '../../core/ports/log.ts'

/** Of the verdicts of proofs. */
interface Unavailable {
  readonly status: 'unavailable'
  /** For whoever asked; what the nodes said is in the log. */
  readonly message: string
}

/**
 * Makes looks at a chain that never reject: where no node can say, it is logged and the verdict is `unavailable`.
 *
 * @param what the log says of a look that failed
 * @returns `about` says in the log which look it was
 */
export function orUnavailable<Verdict>(network: NetworkId, log: Log, what: string) {
  return async (look: () => Promise<Verdict>, about: object): Promise<Verdict | Unavailable> => {
    try {
      return await look()
    } catch (err) {
      log.warn({ err, network, ...about }, what)
      return { status: 'unavailable', message: `No node of ${networkTitle(network)} answers now.` }
    }
  }
}
