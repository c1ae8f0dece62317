import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { replaceFile } from '../storage/files.ts'

/** How far the log had come, said under a key that only an unlocked vault has, in a file beside the log. */
export interface AuditHead {
  readonly seq: number
  readonly hash: string
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
    const { seq, hash, mac } = JSON.parse(text)
    const isWhole = Number.isSafeInteger(seq) && textOf({ seq, hash }, mac) === text
    return isWhole ? { kind: 'head', head: { seq, hash }, mac } : { kind: 'damaged' }
  } catch {
    return { kind: 'damaged' }
  }
}

export function isHeadOurs(key: Uint8Array, head: AuditHead, mac: string): boolean {
  return headMac(key, head) === mac
}

function headMac(key: Uint8Array, { seq, hash }: AuditHead): string {
  return createHmac('sha256', key).update(`head ${seq} ${hash}`).digest('hex')
}

function textOf({ seq, hash }: AuditHead, mac: string): string {
  return `${JSON.stringify({ seq, hash, mac })}\n`
}
