import { createHash } from 'node:crypto'
import type { Sealer } from '../ports/sealer.ts'

/** `CDN-Loop` (RFC 8586) is used instead of `Via`, because common servers do not compress responses to requests with `Via`. */
export const LOOP_HEADER = 'CDN-Loop'

/**
 * The parameter that follows the mark in a request to a price server. Such a request has no payment, so a link whose prices a server
 * states refuses it. Otherwise two such links could be each other's price server.
 */
export const PRICE_PARAMETER = ';for=price'

/** Maximum links of one installation that a call may have passed before it arrives at the next link. */
export const MAX_LINKS_PASSED = 4

/**
 * The marks that an installation writes into {@link LOOP_HEADER} of its requests to sellers' APIs. All its processes and host names
 * have the same marks, which do not reveal where the installation is.
 */
export interface LoopMarks {
  /**
   * A link's mark. If a request with this mark comes back to the link, the link refuses it. The link of a mark can be found only
   * with the server's secret.
   */
  ofLink(linkId: string): string
  /** Number of links of this installation that have forwarded a request. @param passed the request's {@link LOOP_HEADER} */
  linksPassed(passed: string): number
}

export function createLoopMarks(publicUrl: string, sealer: Pick<Sealer, 'mac'>): LoopMarks {
  const installation = `tollgate-${createHash('sha256').update(publicUrl).digest('hex').slice(0, 16)}-`
  return {
    ofLink: (linkId) => installation + sealer.mac('loop-mark', linkId).toString('hex', 0, 8),
    linksPassed: (passed) => passed.split(installation).length - 1,
  }
}
