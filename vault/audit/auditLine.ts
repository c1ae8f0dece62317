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
  readonly entry: AuditEntry
}

/** How long each text of an entry may be; longer ones are cut, because a log that refuses an entry hides what happened. */
const longest: Readonly<Record<string, number>> = { note: 500, claimed: 500, found: 500 }
const longestText = 256

/**
 * An entry as a line: its fields, the hash over the previous hash and those bytes, and the hash's keyed code.
 * @param key undefined while the vault is locked.
 */
export function writeLine(
  event: AuditEvent,
  place: { readonly seq: number; readonly prev: string; readonly timestamp: string },
  key: Uint8Array | undefined,
): { readonly line: Buffer; readonly entry: AuditEntry } {
  const { seq, prev, timestamp } = place
  const fields = { timestamp, ...textsOf(event) }
  const body = JSON.stringify({ seq, prev, ...fields }).slice(0, -1)
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
  const { prev: _, ...fields } = JSON.parse(`${bodyBytes.toString('utf8')}}`)
  return { seq: Number(seq), prev, hash, mac, entry: { ...fields, hash } as AuditEntry }
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
      .slice(0, longest[name] ?? longestText)
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
