import { closeSync, fsyncSync, ftruncateSync, openSync, readFileSync, rmSync } from 'node:fs'
import { basename } from 'node:path'
import type { AuditMark } from '../ports/audit.ts'
import { fileMode } from '../storage/disk/files.ts'
import type { AuditHead } from './auditHead.ts'
import { type AuditLine, firstHash, macOf, mayHappenLocked, readLine } from './auditLine.ts'
import { type Segment, segmentsIn } from './segments.ts'

export interface TailEntry extends AuditMark {
  /** Empty for one that was written while the vault was locked. */
  readonly mac: string
  readonly mayBeWithoutMac: boolean
}

/** The newest file of the log, as far as it can be believed. */
interface OpenedSegment {
  /** Of the last entry that is whole and follows; `firstSeq - 1` when there is none. */
  readonly lastSeq: number
  /** Undefined when there is none and none was given. */
  readonly lastHash: string | undefined
  /** No number up to this one is to be given again; above `lastSeq` only where there is damage. */
  readonly takenSeq: number
  /** Bytes up to the end of that entry. */
  readonly bytes: number
  /** The last entry that says how far the other files had come. */
  readonly lastOfFiles: AuditLine | undefined
  /** The whole entries that the head does not reach: who wrote them is looked at when there is a key. */
  readonly tail: readonly TailEntry[]
  /** Set when something other than a torn end is wrong; the file is left as it is and the log goes on in another. */
  readonly damage: string | undefined
}

/**
 * Follows the chain of the newest file (a few MiB at most) and cuts off an end that a crash tore: bytes behind the last
 * line break, unless the head says that the entry they were was on disk.
 *
 * @param head beside the log; entry 0 when there is none.
 */
function openSegment(segment: Segment, prevHash: string | undefined, head: AuditMark): OpenedSegment {
  const headSeq = head.seq
  const bytes = readFileSync(segment.file)
  let lastSeq = segment.firstSeq - 1
  let lastHash = prevHash
  let at = 0
  let damage: string | undefined
  const tail: TailEntry[] = []
  let lastOfFiles: AuditLine | undefined
  while (at < bytes.length) {
    const end = bytes.indexOf(10, at)
    if (end === -1) break
    const line = readLine(bytes.subarray(at, end))
    const follows =
      line !== undefined && line.seq === lastSeq + 1 && (lastHash === undefined || line.prev === lastHash)
    if (!follows) {
      damage = `entry ${lastSeq + 1} in ${basename(segment.file)} is not what was written`
      break
    }
    lastSeq = line.seq
    lastHash = line.hash
    if (line.files !== '') lastOfFiles = line
    at = end + 1
    if (lastSeq === headSeq && lastHash !== head.hash) {
      damage = `entry ${lastSeq} in ${basename(segment.file)} is not the one that the head names`
      break
    }
    if (lastSeq > headSeq)
      tail.push({
        seq: lastSeq,
        hash: lastHash,
        mac: line.mac,
        mayBeWithoutMac: mayHappenLocked(line.entry),
      })
  }
  if (damage === undefined && at < bytes.length) {
    if (headSeq > lastSeq) damage = `entry ${lastSeq + 1} in ${basename(segment.file)} is cut off`
    else cutTo(segment.file, at)
  }
  const takenSeq = damage === undefined ? lastSeq : Math.max(headSeq, lastSeq + linesFrom(bytes, at))
  return { lastSeq, lastHash, takenSeq, bytes: at, lastOfFiles, tail, damage }
}

function linesFrom(bytes: Buffer, at: number): number {
  let lines = 0
  for (let next = at; next < bytes.length; lines++) {
    const end = bytes.indexOf(10, next)
    next = end === -1 ? bytes.length : end + 1
  }
  return lines
}

function cutTo(file: string, bytes: number): void {
  const opened = openSync(file, 'r+', fileMode)
  try {
    ftruncateSync(opened, bytes)
    fsyncSync(opened)
  } finally {
    closeSync(opened)
  }
}

/** The log's newest file, or what is left where there is none. */
export interface OpenedLog extends OpenedSegment {
  readonly lastHash: string
  readonly file: string | undefined
}

/** The newest file that has an entry; an empty one that a crash left is removed. */
export function openNewest(folder: string, head: AuditHead): OpenedLog {
  for (const segment of segmentsIn(folder).toReversed()) {
    const prev = segment.firstSeq === 1 ? firstHash : undefined
    const opened = openSegment(segment, prev, head)
    if (opened.lastHash === undefined && opened.damage === undefined) {
      rmSync(segment.file)
      continue
    }
    return { ...opened, lastHash: opened.lastHash ?? firstHash, file: segment.file }
  }
  const none = { seq: 0, hash: firstHash }
  // Dropped whole by the limits on its size: what is left is what the head says of it.
  const { seq, hash } = head.cut?.seq === head.seq ? head : none
  return {
    lastSeq: seq,
    lastHash: hash,
    takenSeq: seq,
    bytes: 0,
    lastOfFiles: undefined,
    tail: [],
    damage: undefined,
    file: undefined,
  }
}

/** What is wrong with the entries that the head does not reach; undefined when this vault wrote them all. */
export function foreignEntry(tail: readonly TailEntry[], key: Uint8Array): string | undefined {
  const wrong = tail.find(({ mac, hash, mayBeWithoutMac }) =>
    mac === '' ? !mayBeWithoutMac : mac !== macOf(key, hash),
  )
  if (wrong === undefined) return undefined
  return wrong.mac === ''
    ? `entry ${wrong.seq} has no code of this vault`
    : `entry ${wrong.seq} was not written by this vault`
}
