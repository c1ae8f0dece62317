import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { AuditVerdict } from '../ports/audit.ts'
import { type HeadRead, isHeadOurs } from './auditHead.ts'
import { firstHash, macOf, readLine } from './auditLine.ts'
import type { Segment } from './segments.ts'

export interface LogToVerify {
  readonly segments: readonly Segment[]
  /** Entries above this one are still being written. */
  readonly lastSeq: number
  readonly head: HeadRead
  /** Undefined while the vault is locked. */
  readonly key: Uint8Array | undefined
}

/**
 * Reads the log from its first entry, one file at a time, and names the first entry that is missing, changed or not
 * authenticated. An entry without a keyed code (written while locked) is vouched for by the next one that has one,
 * or by the head.
 */
export async function verifyLog({ segments, lastSeq, head, key }: LogToVerify): Promise<AuditVerdict> {
  let expected = 1
  let prev = firstHash
  let unvouched: number | undefined
  let headHash = head.kind === 'head' && head.head.seq === 0 ? firstHash : undefined
  const authenticated = key !== undefined
  const bad = (firstBad: number, reason: string): AuditVerdict => ({
    ok: false,
    entries: expected - 1,
    firstBad,
    reason,
    authenticated,
  })

  for (const { file, firstSeq } of segments) {
    if (expected > lastSeq) break
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
      if (key !== undefined) {
        if (line.mac === '') unvouched ??= expected
        else if (line.mac === macOf(key, line.hash)) unvouched = undefined
        else return bad(unvouched ?? expected, `entry ${unvouched ?? expected} was not written by this vault`)
      }
      if (head.kind === 'head' && head.head.seq === expected) headHash = line.hash
      prev = line.hash
      expected++
      at = end + 1
    }
  }
  if (expected <= lastSeq) return bad(expected, `entry ${expected} is missing at the end`)
  const headProblem = problemOf(head, headHash, lastSeq, key)
  if (headProblem !== undefined) return bad(headProblem.firstBad ?? expected, headProblem.reason)
  return { ok: true, entries: expected - 1, authenticated }
}

function problemOf(
  read: HeadRead,
  hashThere: string | undefined,
  lastSeq: number,
  key: Uint8Array | undefined,
): { readonly firstBad?: number; readonly reason: string } | undefined {
  if (read.kind === 'missing') return { reason: 'the head beside the log is missing' }
  if (read.kind === 'damaged') return { reason: 'the head beside the log was changed' }
  if (key !== undefined && !isHeadOurs(key, read.head, read.mac)) {
    return { reason: 'the head beside the log was not written by this vault' }
  }
  const { seq, hash } = read.head
  if (seq > lastSeq)
    return { firstBad: lastSeq + 1, reason: `entries ${lastSeq + 1} to ${seq} are missing at the end` }
  if (hashThere !== hash) return { firstBad: seq, reason: `entry ${seq} is not the one that the head names` }
  return undefined
}
