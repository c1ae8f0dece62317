import type { VaultState } from '../disk/sealedRows.ts'
import {
  entryOf,
  firstHash,
  isWhole,
  type KnownActs,
  type LogRow,
  type LogTable,
  macOf,
  mayHappenLocked,
} from './auditEntry.ts'

/** Number of newest entries that are checked at each unlock. */
const TAIL_ENTRIES = 10_000

export interface TailContext {
  readonly state: VaultState
  readonly lastSeq: number
  readonly key: Uint8Array
  /** Collects the actions in the entries. */
  readonly acts: KnownActs
}

/** The first problem with the newest entries that was not reported before. Undefined if there is none. */
export function checkTail(table: LogTable, { state, lastSeq, key, acts }: TailContext): string | undefined {
  const { cut } = state.log
  const from = Math.max(cut?.seq ?? 0, lastSeq - TAIL_ENTRIES)
  let prev = from === cut?.seq ? cut.hash : from === 0 ? firstHash : undefined
  let wrong: string | undefined
  let expected = from + 1
  for (let rows = table.after(from); rows.length > 0; rows = table.after(expected - 1)) {
    for (const row of rows) {
      if (row.seq > state.told) {
        // The two entries have a gap between them, where the log skipped a number to record damage.
        if (expected <= state.told) prev = undefined
        expected = Math.max(expected, state.told + 1)
        wrong ??=
          row.seq === expected ? wrongWith(row, prev, state.log.seq, key) : missing(expected, row.seq - 1)
      }
      const isDone = row.body.includes('"act":"') || row.body.includes('"approvalId":"')
      if (isDone && row.mac === macOf(key, row.hash) && isWhole(row)) acts.note(entryOf(row))
      prev = row.hash
      expected = row.seq + 1
    }
  }
  return wrong
}

/** The entries without a keyed code at the end of the log. */
export function runWithoutCodes(table: LogTable): { readonly from: number; readonly to: number } | undefined {
  const to = table.last?.seq
  let from: number | undefined
  let before = Number.MAX_SAFE_INTEGER
  for (let rows = table.before(before); rows.length > 0; rows = table.before(before)) {
    for (const { seq, mac } of rows) {
      if (mac !== '') return from === undefined ? undefined : { from, to: to! }
      from = before = seq
    }
  }
  return from === undefined ? undefined : { from, to: to! }
}

function wrongWith(
  row: LogRow,
  prev: string | undefined,
  lastSeq: number,
  key: Uint8Array,
): string | undefined {
  const { seq, mac } = row
  if (!isWhole(row)) return `entry ${seq} was changed`
  if (prev !== undefined && row.prev !== prev) return `entry ${seq} does not follow the one before it`
  if (mac === '')
    return mayHappenLocked(entryOf(row)) ? undefined : `entry ${seq} has no authentication code of this vault`
  // No entry after the state's last entry has a keyed code, because the state and the entry are written in one transaction.
  return mac === macOf(key, row.hash) && seq <= lastSeq
    ? undefined
    : `entry ${seq} was not written by this vault`
}

/** Entries that are missing. */
export const missing = (from: number, to: number): string => `entries ${from} to ${to} are missing`
