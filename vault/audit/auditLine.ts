import { createHash, createHmac } from 'node:crypto'
import type { AuditEntry, AuditEvent } from '../ports/audit.ts'

/** What the first entry follows. */
export const firstHash = '0'.repeat(64)
const macBytes = 16
const form =
  /^(\{"seq":(\d{1,15}),"prev":"([0-9a-f]{64})",.*),"hash":"([0-9a-f]{64})","mac":"((?:[0-9a-f]{32})?)"\}$/s

/** One line of the log, taken apart. */
export interface AuditLine {
  readonly seq: number
  readonly prev: string
  readonly hash: string
  /** Empty for an entry that was written while the vault was locked. */
  readonly mac: string
  /** How far the other files of the vault had come; empty where the entry does not say. */
  readonly files: string
  readonly entry: AuditEntry
}

/** How long each text of an entry may be; longer ones are cut, because a log that refuses an entry hides what happened. */
const longest: Readonly<Record<string, number>> = { note: 500, claimed: 500, found: 500 }
const LONGEST_TEXT = 256

/**
 * An entry as a line: its fields, the hash over the previous hash and those bytes, and the hash's keyed code.
 * @param key undefined while the vault is locked
 * @param files how far the other files of the vault have come; only with a key
 */
export function writeLine(
  event: AuditEvent,
  place: { readonly seq: number; readonly prev: string; readonly timestamp: string },
  key: Uint8Array | undefined,
  files?: string,
): { readonly line: Buffer; readonly entry: AuditEntry } {
  const { seq, prev, timestamp } = place
  const fields = { timestamp, ...textsOf(event) }
  const body = JSON.stringify({ seq, prev, ...fields, files }).slice(0, -1)
  const hash = hashOf(Buffer.from(body, 'utf8'))
  const mac = key === undefined ? '' : macOf(key, hash)
  const entry = { seq, ...fields, hash } as unknown as AuditEntry
  return { line: Buffer.from(`${body},"hash":"${hash}","mac":"${mac}"}\n`, 'utf8'), entry }
}

/** The line without its line break, or undefined when it is none of ours or was changed in any byte that the hash covers. */
export function readLine(bytes: Buffer): AuditLine | undefined {
  // Byte for byte: read as UTF-8, several wrong bytes would all become the same replacement character.
  const found = form.exec(bytes.toString('latin1'))
  if (found === null) return undefined
  const [, body, seq, prev, hash, mac] = found as unknown as [string, string, string, string, string, string]
  const bodyBytes = Buffer.from(body, 'latin1')
  if (hashOf(bodyBytes) !== hash) return undefined
  const { prev: _, files = '', ...fields } = JSON.parse(`${bodyBytes.toString('utf8')}}`)
  return { seq: Number(seq), prev, hash, mac, files, entry: { ...fields, hash } as AuditEntry }
}

/** HMAC-SHA256 over an entry's hash, cut to 128 bits. */
export function macOf(key: Uint8Array, hash: string): string {
  return createHmac('sha256', key).update(`entry ${hash}`).digest().subarray(0, macBytes).toString('hex')
}

/** The previous hash is part of the body, so it is covered. */
function hashOf(body: Buffer): string {
  return createHash('sha256').update(body).digest('hex')
}

function textsOf(event: AuditEvent): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const name of fieldNames) {
    const value = event[name]
    if (value === undefined) continue
    // A half of a surrogate pair has no UTF-8 of its own and would hash as something else when read back.
    texts[name] = String(value)
      .slice(0, longest[name] ?? LONGEST_TEXT)
      .toWellFormed()
  }
  return texts
}

const fieldNames = [
  'agent',
  'action',
  'status',
  'amount',
  'currency',
  'scope',
  'recipient',
  'chain',
  'approvalId',
  'decisionHash',
  'requestId',
  'act',
  'code',
  'note',
  'claimed',
  'found',
] as const satisfies readonly (keyof AuditEvent)[]

/** The note of a changed password, which needs no open vault. */
export const passwordChanged = 'the password changed'

/** The notes of an approvals page that is opened, to unlock the vault on it, and of all that are signed out. */
export const pageOpened = 'the approvals page was opened'
export const pagesSignedOut = 'every approvals page was signed out'

/**
 * Whether an event is one that happens while the vault is locked. Nothing else may stand in the log without a keyed code:
 * the log refuses to write it, and a check names it as the first bad entry. Whoever can write the files could add an entry
 * of this kind, so those are told as what nobody vouches for.
 */
export function mayHappenLocked({ action, status, note }: AuditEvent): boolean {
  if (action === 'UNLOCK') return status === 'DENIED' || status === 'FAILED'
  if (action === 'LOCK') return status === 'APPROVED'
  if (action !== 'CONFIG') return false
  if (note === passwordChanged) return status === 'APPROVED' || status === 'DENIED'
  return (note === pageOpened || note === pagesSignedOut) && status === 'APPROVED'
}
