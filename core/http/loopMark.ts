import { createHash } from 'node:crypto'
import type { Sealer } from '../ports/sealer.ts'

/** `CDN-Loop` (RFC 8586), and not `Via`: with a `Via`, common servers stop compressing their answers. */
export const LOOP_HEADER = 'CDN-Loop'

/** How many links of one installation a call may have passed when it arrives at the next one. */
export const MAX_LINKS_PASSED = 4

/**
 * What an installation writes into {@link LOOP_HEADER} of its requests to sellers' APIs. The same in all its processes and under
 * all its host names; it doesn't reveal where the installation is.
 */
export interface LoopMarks {
  /** A link's mark: the same link refuses it when it comes back. Only the server's secret leads from it to the link. */
  ofLink(linkId: string): string
  /** How many links of this installation have forwarded a request. @param passed its {@link LOOP_HEADER} */
  linksPassed(passed: string): number
}

export function createLoopMarks(publicUrl: string, sealer: Pick<Sealer, 'mac'>): LoopMarks {
  const installation = `tollgate-${createHash('sha256').update(publicUrl).digest('hex').slice(0, 16)}-`
  return {
    ofLink: (linkId) => installation + sealer.mac('loop-mark', linkId).toString('hex', 0, 8),
    linksPassed: (passed) => passed.split(installation).length - 1,
  }
}
