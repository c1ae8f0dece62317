import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { AuditMark, AuditVerdict } from '../ports/audit.ts'
import { type AuditHead, type HeadRead, isHeadOurs } from './auditHead.ts'
import { firstHash, macOf, mayHappenLocked, readLine } from './auditLine.ts'
import type { Segment } from './segments.ts'

const MOST_RANGES = 1_000

export interface LogToVerify {
  readonly segments: readonly Segment[]
  /** Entries above this one are still being written. */
  readonly lastSeq: number
  readonly head: HeadRead
  /** Undefined while the vault is locked. */
  readonly key: Uint8Array | undefined
  /** What was dropped because it was old; the log begins behind it. */
  readonly cut?: AuditMark | undefined
  /** The head as this process wrote it last: another one in its place was put there. */
  readonly written?: AuditHead | undefined
  /** How far the log had come at some time, as something else than the log and its head remembers it. */
  readonly anchor?: AuditMark | undefined
}

/**
 * Reads the log from its first entry, one file at a time, and names the first entry that is missing, changed or not
 * authenticated. An entry without a keyed code has to be one that is written while the vault is locked; it is told, and
 * vouched for by the next one that has a code, or by the head.
 */
export async function verifyLog(log: LogToVerify): Promise<AuditVerdict> {
  const { segments, lastSeq, head, key, cut, anchor } = log
  const startsAfter = cut ?? { seq: 0, hash: firstHash }
  let expected = startsAfter.seq + 1
  let prev = startsAfter.hash
  let lastTime = ''
  let clockTurnedBack: number | undefined
  let unvouched: number | undefined
  const ranges: { from: number; to: number; count: number }[] = []
  let headHash = head.kind === 'head' && head.head.seq === startsAfter.seq ? startsAfter.hash : undefined
  const told = () => ({
    entries: expected - 1 - startsAfter.seq,
    ...(cut !== undefined && { dropped: cut.seq }),
    unauthenticated: ranges.slice(0, MOST_RANGES),
    ...(clockTurnedBack !== undefined && { clockTurnedBack }),
    authenticated: key !== undefined,
  })
  const bad = (firstBad: number, reason: string): AuditVerdict => ({ ok: false, ...told(), firstBad, reason })

  for (const { file, firstSeq } of segments) {
    if (expected > lastSeq) break
    if (firstSeq < expected && firstSeq <= startsAfter.seq) continue // dropped, and not removed yet
    if (firstSeq !== expected) return bad(expected, `entry ${expected} is missing before ${basename(file)}`)
    const bytes = await readFile(file)
    for (let at = 0; at < bytes.length && expected <= lastSeq; ) {
      const end = bytes.indexOf(10, at)
      const line = end === -1 ? undefined : readLine(bytes.subarray(at, end))
      if (line === undefined)
        return bad(expected, `entry ${expected} in ${basename(file)} was changed or cut off`)
      if (line.seq !== expected)
        return bad(expected, `entry ${expected} is missing; ${line.seq} stands in its place`)
      // Either side of the break may be the forged one; the side that nobody vouches for is named.
      if (line.prev !== prev)
        return bad(unvouched ?? expected, `entry ${expected} does not follow the one before it`)
      if (line.mac === '') {
        const { action, status } = line.entry
        if (!mayHappenLocked(line.entry))
          return bad(expected, `entry ${expected} (${action} ${status}) has no code of this vault`)
        unvouched ??= expected
        const range = ranges.at(-1)
        if (range?.to === expected - 1) Object.assign(range, { to: expected, count: range.count + 1 })
        else ranges.push({ from: expected, to: expected, count: 1 })
      } else if (key !== undefined) {
        if (line.mac !== macOf(key, line.hash))
          return bad(unvouched ?? expected, `entry ${unvouched ?? expected} was not written by this vault`)
        unvouched = undefined
      }
      if (anchor?.seq === expected && anchor.hash !== line.hash)
        return bad(expected, `entry ${expected} is not the one that the vault remembers`)
      if (head.kind === 'head' && head.head.seq === expected) headHash = line.hash
      if (line.entry.timestamp < lastTime) clockTurnedBack ??= expected
      lastTime = line.entry.timestamp
      prev = line.hash
      expected++
      at = end + 1
    }
  }
  if (expected <= lastSeq) return bad(expected, `entry ${expected} is missing at the end`)
  const headProblem = problemOf(log, headHash)
  if (headProblem !== undefined) return bad(headProblem.firstBad ?? expected, headProblem.reason)
  const headSeq = head.kind === 'head' ? head.head.seq : 0
  if (key !== undefined && unvouched !== undefined && headSeq < expected - 1)
    return bad(unvouched, `entry ${unvouched} has no code, and nothing of this vault follows it`)
  return { ok: true, ...told() }
}

function problemOf(
  { head: read, lastSeq, key, written, anchor }: LogToVerify,
  hashThere: string | undefined,
): { readonly firstBad?: number; readonly reason: string } | undefined {
  if (read.kind === 'missing') return { reason: 'the head beside the log is missing' }
  if (read.kind === 'damaged') return { reason: 'the head beside the log was changed' }
  if (key !== undefined && !isHeadOurs(key, read.head, read.mac)) {
    return { reason: 'the head beside the log was not written by this vault' }
  }
  const { seq, hash, cut } = read.head
  if (seq > lastSeq)
    return { firstBad: lastSeq + 1, reason: `entries ${lastSeq + 1} to ${seq} are missing at the end` }
  if (hashThere !== hash) return { firstBad: seq, reason: `entry ${seq} is not the one that the head names` }
  const least = Math.max(written?.seq ?? 0, anchor?.seq ?? 0)
  if (seq < least || (written !== undefined && cut?.seq !== written.cut?.seq))
    return { firstBad: seq + 1, reason: `the head beside the log is an older one: it names entry ${seq}` }
  return undefined
}
