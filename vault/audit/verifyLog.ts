import { setImmediate as others } from 'node:timers/promises'
import type { AuditMark, AuditVerdict } from '../ports/audit.ts'
import {
  entryOf,
  firstHash,
  isWhole,
  type LogTable,
  macOf,
  mayHappenLocked,
  readTimestamp,
} from './auditEntry.ts'
import { type AuditHead, type HeadRead, isHeadOurs } from './auditHead.ts'

const MAX_RANGES = 1_000

export interface LogToVerify {
  readonly table: LogTable
  /** Rows after this one are not checked. */
  readonly lastSeq: number
  /** The head of the log. Undefined if only a part of the log is checked. */
  readonly head: HeadRead | undefined
  /** The key of the keyed codes. Undefined while the vault is locked. */
  readonly key: Uint8Array | undefined
  /** The last dropped entry. The log begins after it. */
  readonly cut?: AuditMark | undefined
  /** The head that this process wrote last. Another program has replaced it if the file contains a different head. */
  readonly written?: AuditHead | undefined
  /** The end of the log according to the vault's state. */
  readonly anchor?: AuditMark | undefined
}

/**
 * Reads the log from its first entry and reports the first entry that is missing, changed or not authenticated. An entry
 * without a keyed code must be of a kind that is written while the vault is locked. The verdict lists such entries. The next
 * entry with a code, or the head, authenticates them.
 */
export async function verifyLog(log: LogToVerify): Promise<AuditVerdict> {
  const { table, lastSeq, head, key, cut, anchor } = log
  const start = cut ?? { seq: 0, hash: firstHash }
  let expected = start.seq + 1
  let prev = start.hash
  let lastTime = Number.NEGATIVE_INFINITY
  let clockTurnedBack: number | undefined
  let unvouched: number | undefined
  const ranges: { from: number; to: number; count: number }[] = []
  let headHash = head?.kind === 'head' && head.head.seq === start.seq ? start.hash : undefined
  const summary = () => ({
    entries: expected - 1 - start.seq,
    ...(cut !== undefined && { dropped: cut.seq }),
    unauthenticated: ranges.slice(0, MAX_RANGES),
    ...(clockTurnedBack !== undefined && { clockTurnedBack }),
    authenticated: key !== undefined,
  })
  const bad = (firstBad: number, reason: string): AuditVerdict => ({
    ok: false,
    ...summary(),
    firstBad,
    reason,
  })

  for (;;) {
    // The rows before the first entry are read too. Such a row was inserted, or restored after it was dropped.
    const rows = table
      .after(expected === start.seq + 1 ? 0 : expected - 1)
      .filter(({ seq }) => seq <= lastSeq)
    if (rows.length === 0) break
    for (const row of rows) {
      const { seq, hash, mac } = row
      if (seq < expected) return bad(seq, `entry ${seq} was dropped but is there again`)
      if (seq > expected) return bad(expected, `entry ${expected} is missing, entry ${seq} is in its place`)
      if (!isWhole(row)) return bad(expected, `entry ${expected} was changed`)
      // The entry on either side of the break may be forged. The unauthenticated one is reported.
      if (row.prev !== prev)
        return bad(unvouched ?? expected, `entry ${expected} does not follow the one before it`)
      if (mac === '') {
        const { action, status } = entryOf(row)
        if (!mayHappenLocked(entryOf(row)))
          return bad(
            expected,
            `entry ${expected} (${action} ${status}) has no authentication code of this vault`,
          )
        unvouched ??= expected
        const range = ranges.at(-1)
        if (range?.to === expected - 1) Object.assign(range, { to: expected, count: range.count + 1 })
        else ranges.push({ from: expected, to: expected, count: 1 })
      } else if (key !== undefined) {
        if (mac !== macOf(key, hash))
          return bad(unvouched ?? expected, `entry ${unvouched ?? expected} was not written by this vault`)
        unvouched = undefined
      }
      if (anchor?.seq === expected && anchor.hash !== hash)
        return bad(expected, `entry ${expected} is not the one that the vault's state names`)
      if (head?.kind === 'head' && head.head.seq === expected) headHash = hash
      const time = readTimestamp(row)
      if (time < lastTime) clockTurnedBack ??= expected
      lastTime = time
      prev = hash
      expected++
    }
    await others()
  }
  if (expected <= lastSeq) return bad(expected, `entry ${expected} is missing at the end`)
  if (head === undefined) return { ok: true, ...summary() }
  const headProblem = problemOf(log, head, headHash)
  if (headProblem !== undefined) return bad(headProblem.firstBad ?? expected, headProblem.reason)
  const headSeq = head.kind === 'head' ? head.head.seq : 0
  if (key !== undefined && unvouched !== undefined && headSeq < expected - 1)
    return bad(
      unvouched,
      `entry ${unvouched} has no authentication code, and no entry of this vault follows it`,
    )
  return { ok: true, ...summary() }
}

function problemOf(
  { lastSeq, key, written }: LogToVerify,
  read: HeadRead,
  hashThere: string | undefined,
): { readonly firstBad?: number; readonly reason: string } | undefined {
  if (read.kind === 'missing') return { reason: 'the head beside the log is missing' }
  if (read.kind === 'damaged') return { reason: 'the head beside the log was changed' }
  if (key !== undefined && !isHeadOurs(key, read.head, read.mac)) {
    return { reason: 'the head beside the log was not written by this vault' }
  }
  const { seq, hash, counter } = read.head
  if (seq > lastSeq)
    return { firstBad: lastSeq + 1, reason: `entries ${lastSeq + 1} to ${seq} are missing at the end` }
  if (hashThere !== hash) return { firstBad: seq, reason: `entry ${seq} is not the one that the head names` }
  if (written !== undefined && counter < written.counter)
    return { firstBad: seq + 1, reason: `the head beside the log is older and names entry ${seq}` }
  return undefined
}
