import type { Exchange } from '../../core/plugin/exchange.ts'
import { alike, beginsAlike, isDroppedFromRequest } from './dropped.ts'

/** What is added to every request of a link: the seller's own credential, opened once per link version. */
export interface AddedHeaders {
  /** Flat. */
  readonly list: readonly string[]
  /** As a careless reader takes them (`alike` in dropped.ts); they replace the caller's. */
  readonly names: ReadonlySet<string>
}

export const noHeaders: AddedHeaders = { list: [], names: new Set() }

export function addedHeaders(headers: Readonly<Record<string, string>>): AddedHeaders {
  const entries = Object.entries(headers)
  return { list: entries.flat(), names: new Set(entries.map(([name]) => alike(name))) }
}

/**
 * Rebuilds the caller's head for the seller: what is hop-by-hop, nominated by `Connection`, about payment or about the
 * gateway's own origin stays behind.
 *
 * @param isBuffered the answer will be spliced or held, so it must not come compressed
 * @returns flat
 */
export function requestHead(x: Exchange, added: AddedHeaders, isBuffered: boolean): string[] {
  const raw = x.door.rawHeaders
  const nominated = nominatedBy(raw)
  const head: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!
    if (isDroppedFromRequest(name)) continue
    if (name.length === 14 && beginsAlike(name, 'content-length')) {
      // Under an odd name it would be a second length, to careless readers only.
      if (!x.hasBody || name.toLowerCase() !== 'content-length') continue
    }
    if (isBuffered && name.length === 15 && beginsAlike(name, 'accept-encoding')) continue
    if (nominated?.has(name.toLowerCase())) continue
    if (added.names.size !== 0 && added.names.has(alike(name))) continue
    head.push(name, raw[i + 1]!)
  }
  head.push('X-Forwarded-For', x.clientIp)
  if (isBuffered && !added.names.has('accept-encoding')) head.push('Accept-Encoding', 'identity')
  if (added.list.length !== 0) head.push(...added.list)
  return head
}

/** Header names that `Connection` lists beside the usual two; null when there are none. */
export function nominatedBy(raw: readonly string[]): Set<string> | null {
  let names: Set<string> | null = null
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length !== 10 || raw[i]!.toLowerCase() !== 'connection') continue
    const value = raw[i + 1]!
    if (value === 'keep-alive' || value === 'close') continue
    names ??= new Set()
    for (const name of value.split(',')) names.add(name.trim().toLowerCase())
  }
  return names
}
