import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { replaceFile } from '../disk/files.ts'
import { VaultError } from '../errors/error.ts'
import type { AuditMark } from '../ports/audit.ts'

/**
 * The progress of the vault, in a file beside the database. It is authenticated with a key that only an unlocked vault has. The
 * head reveals whether the database was replaced by an older one.
 */
export interface AuditHead extends AuditMark {
  readonly lineage: string
  /** Number of the database's transactions. */
  readonly counter: number
  /** The last entry that was dropped from the beginning of the log. Undefined if none was dropped. */
  readonly cut?: AuditMark | undefined
}

export type HeadRead =
  | { readonly kind: 'head'; readonly head: AuditHead; readonly mac: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'damaged' }

export function writeHead(file: string, key: Uint8Array, head: AuditHead): void {
  replaceFile(file, Buffer.from(textOf(head, macOfHead(key, head))))
}

/** Reads the head from its file. {@link isHeadOurs} checks whether it is authentic. */
export function readHead(file: string): HeadRead {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    return { kind: (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'damaged' }
  }
  try {
    const { mac, ...head } = JSON.parse(text)
    const marks = head.cut === undefined ? [head] : [head, head.cut]
    const isWhole = marks.every(isMark) && Number.isSafeInteger(head.counter) && textOf(head, mac) === text
    return isWhole ? { kind: 'head', head, mac } : { kind: 'damaged' }
  } catch {
    return { kind: 'damaged' }
  }
}

export function isHeadOurs(key: Uint8Array, head: AuditHead, mac: string): boolean {
  return macOfHead(key, head) === mac
}

const isMark = ({ seq, hash }: AuditMark): boolean =>
  Number.isSafeInteger(seq) && seq >= 0 && /^[0-9a-f]{64}$/.test(hash)

function macOfHead(key: Uint8Array, { lineage, counter, seq, hash, cut }: AuditHead): string {
  const dropped = cut === undefined ? '' : ` cut ${cut.seq} ${cut.hash}`
  return createHmac('sha256', key).update(`head ${lineage} ${counter} ${seq} ${hash}${dropped}`).digest('hex')
}

function textOf({ lineage, counter, seq, hash, cut }: AuditHead, mac: string): string {
  const dropped = cut && { seq: cut.seq, hash: cut.hash }
  return `${JSON.stringify({ lineage, counter, seq, hash, ...(cut !== undefined && { cut: dropped }), mac })}\n`
}

/**
 * @param name the name of the database with this lineage and counter
 * @throws `VAULT_CORRUPT` when the database is older than its head, or belongs to another vault
 */
export function assertNewest(name: string, lineage: string, counter: number, head: AuditHead): void {
  const found =
    head.lineage !== lineage
      ? `${name} and audit.head of the vault do not belong together, because one of the two is from before the vault was restored`
      : head.counter > counter
        ? `${name} of the vault is older than audit.head: it has ${counter} changes, but audit.head was written after ${head.counter}`
        : undefined
  if (found !== undefined)
    throw new VaultError(
      'VAULT_CORRUPT',
      `${found}. The vault was not opened. Put the newest ${name} back, or restore the newest backup into another folder: tollgate vault restore.`,
    )
}
