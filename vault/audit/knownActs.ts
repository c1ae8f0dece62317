import { readFileSync } from 'node:fs'
import type { AuditEvent } from '../ports/audit.ts'
import { macOf, readLine } from './auditLine.ts'
import type { Segment } from './segments.ts'

const MOST_ACTS = 10_000
/** Two files hold more than the entries of anything that may still be asked for again. */
const FILES_READ = 2

/** What the newest entries say was done, so that nothing is written down twice; see `AuditLog.hasAct`. */
export class KnownActs {
  readonly #ids = new Set<string>()
  #isRead = false

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  note({ act, approvalId, status }: AuditEvent): void {
    if (act !== undefined) this.#add(act)
    if (approvalId !== undefined && status === 'APPROVED') this.#add(approvalId)
  }

  /** Takes in what the newest files say, once. Only entries with a code of this vault are believed. */
  read(segments: readonly Segment[], key: Uint8Array): void {
    if (this.#isRead) return
    this.#isRead = true
    for (const { file } of segments.slice(-FILES_READ)) {
      const bytes = readFileSync(file)
      for (let at = 0, end = bytes.indexOf(10); end !== -1; at = end + 1, end = bytes.indexOf(10, at)) {
        const raw = bytes.subarray(at, end)
        if (!raw.includes('"act":"') && !raw.includes('"approvalId":"')) continue
        const line = readLine(raw)
        if (line !== undefined && line.mac === macOf(key, line.hash)) this.note(line.entry)
      }
    }
  }

  #add(id: string): void {
    this.#ids.delete(id)
    this.#ids.add(id)
    if (this.#ids.size > MOST_ACTS) this.#ids.delete(this.#ids.values().next().value!)
  }
}
