import { createHash } from 'node:crypto'

/** `CDN-Loop` (RFC 8586), and not `Via`: with a `Via`, common servers stop compressing their answers. */
export const LOOP_HEADER = 'CDN-Loop'

/**
 * What a gateway writes into {@link LOOP_HEADER} of its requests to sellers' APIs, and refuses when it comes back. One for all
 * processes and host names of an installation; it says nothing about where that is.
 */
export const loopMark = (publicUrl: string): string =>
  `tollgate-${createHash('sha256').update(publicUrl).digest('hex').slice(0, 16)}`
