import { closeSync, openSync, readSync, statSync } from 'node:fs'
import type { AuditMark } from '../ports/audit.ts'
import { readLine } from './auditLine.ts'
import type { Segment } from './segments.ts'

/** How much of the log is kept. */
export interface AuditLimits {
  readonly maxBytes: number
  /** Undefined: as long as there is room. */
  readonly keepMs?: number | undefined
}

/** A file holds at most this part of the time that entries are kept, so that they go not much later than they should. */
const FILES_IN_TIME = 8
/** More than the longest entry. */
const LONGEST_LINE_BYTES = 32_768

export interface OldOnes {
  readonly dropped: readonly Segment[]
  /** The place that the log begins behind then; undefined where all files stay. */
  readonly cut: AuditMark | undefined
  /** Whether the newest file began so long ago that the next entries belong into another. */
  readonly isNewestAging: boolean
}

/**
 * Which of the oldest files to drop. The newest always stays.
 */
export function oldOnes(
  segments: readonly Segment[],
  { maxBytes, keepMs }: AuditLimits,
  nowMs: number,
): OldOnes {
  let bytes = segments.reduce((sum, { file }) => sum + statSync(file).size, 0)
  let cut: AuditMark | undefined
  let count = 0
  for (; count < segments.length - 1; count++) {
    const next = firstEntry(segments[count + 1]!)
    if (next === undefined) break
    // The next file's first entry is younger than all of this one.
    const isOld = keepMs !== undefined && nowMs - next.atMs > keepMs
    if (bytes <= maxBytes && !isOld) break
    bytes -= statSync(segments[count]!.file).size
    cut = { seq: segments[count + 1]!.firstSeq - 1, hash: next.prev }
  }
  const newest = keepMs === undefined || segments.length === 0 ? undefined : firstEntry(segments.at(-1)!)
  const isNewestAging = newest !== undefined && nowMs - newest.atMs > keepMs! / FILES_IN_TIME
  return { dropped: segments.slice(0, count), cut, isNewestAging }
}

function firstEntry({
  file,
  firstSeq,
}: Segment): { readonly prev: string; readonly atMs: number } | undefined {
  const descriptor = openSync(file, 'r')
  try {
    const bytes = Buffer.alloc(LONGEST_LINE_BYTES)
    const start = bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, 0))
    const end = start.indexOf(10)
    const line = end === -1 ? undefined : readLine(start.subarray(0, end))
    if (line === undefined || line.seq !== firstSeq) return undefined
    return { prev: line.prev, atMs: Date.parse(line.entry.timestamp) }
  } finally {
    closeSync(descriptor)
  }
}
