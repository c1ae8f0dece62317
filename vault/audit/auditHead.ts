import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { AuditMark } from '../ports/audit.ts'
import { replaceFile } from '../storage/disk/files.ts'

/** How far the log had come, said under a key that only an unlocked vault has, in a file beside the log. */
export interface AuditHead extends AuditMark {
  /** The last of the entries that were dropped because they were old; undefined while the log has all of its entries. */
  readonly cut?: AuditMark | undefined
}

export type HeadRead =
  | { readonly kind: 'head'; readonly head: AuditHead; readonly mac: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'damaged' }

export function writeHead(file: string, key: Uint8Array, head: AuditHead): void {
  replaceFile(file, Buffer.from(textOf(head, headMac(key, head))))
}

/** The head as it stands there; {@link isHeadOurs} says whether to believe it. */
export function readHead(file: string): HeadRead {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    return { kind: (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'damaged' }
  }
  try {
    const { seq, hash, cut, mac } = JSON.parse(text)
    const head = cut === undefined ? { seq, hash } : { seq, hash, cut: { seq: cut.seq, hash: cut.hash } }
    const isWhole =
      [head, ...(head.cut === undefined ? [] : [head.cut])].every(isMark) && textOf(head, mac) === text
    return isWhole ? { kind: 'head', head, mac } : { kind: 'damaged' }
  } catch {
    return { kind: 'damaged' }
  }
}

export function isHeadOurs(key: Uint8Array, head: AuditHead, mac: string): boolean {
  return headMac(key, head) === mac
}

const isMark = ({ seq, hash }: AuditMark): boolean =>
  Number.isSafeInteger(seq) && seq >= 0 && /^[0-9a-f]{64}$/.test(hash)

/** The head's keyed code. */
export function headMac(key: Uint8Array, { seq, hash, cut }: AuditHead): string {
  const dropped = cut === undefined ? '' : ` cut ${cut.seq} ${cut.hash}`
  return createHmac('sha256', key).update(`head ${seq} ${hash}${dropped}`).digest('hex')
}

function textOf({ seq, hash, cut }: AuditHead, mac: string): string {
  return `${JSON.stringify({ seq, hash, ...(cut !== undefined && { cut }), mac })}\n`
}
