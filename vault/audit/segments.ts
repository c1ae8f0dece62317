import { readdirSync } from 'node:fs'
import { join } from 'node:path'

const form = /^(\d{15})\.jsonl$/

/** One file of the log. */
export interface Segment {
  readonly file: string
  /** Of its first entry. */
  readonly firstSeq: number
}

/** The log's files, oldest first. */
export function segmentsIn(folder: string): Segment[] {
  return readdirSync(folder)
    .flatMap((name) => {
      const found = form.exec(name)
      return found === null ? [] : [{ file: join(folder, name), firstSeq: Number(found[1]) }]
    })
    .sort((a, b) => a.firstSeq - b.firstSeq)
}

/** The file that begins with an entry. Numbers are padded, so that names sort as they follow. */
export function segmentFile(folder: string, firstSeq: number): string {
  return join(folder, `${String(firstSeq).padStart(15, '0')}.jsonl`)
}
