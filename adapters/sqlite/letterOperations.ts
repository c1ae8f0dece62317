import type { DatabaseSync } from 'node:sqlite'

/** Between two looks for letters whose lease is no more, in ms. */
const PRUNE_MS = 60_000

/** recipient, sender, body */
export type LetterArgs = readonly [recipient: number, sender: number, body: Uint8Array]

/** The writes of the port Letters, inside the writer's transaction. */
export function letterOperations(database: DatabaseSync) {
  const insert = database.prepare('INSERT INTO letters (recipient, sender, body) VALUES (?, ?, ?)')
  const remove = database.prepare('DELETE FROM letters WHERE recipient = ? AND id <= ?')
  const prune = database.prepare('DELETE FROM letters WHERE recipient NOT IN (SELECT id FROM leases)')
  let prunedAtMs = Number.NEGATIVE_INFINITY

  return {
    postLetters(letters: readonly LetterArgs[]): void {
      const nowMs = performance.now()
      if (nowMs - prunedAtMs >= PRUNE_MS) {
        prunedAtMs = nowMs
        prune.run()
      }
      for (const letter of letters) insert.run(...letter)
    },
    /** Those that were heard. */
    removeLetters: ([recipient, upTo]: readonly [recipient: number, upTo: number]): void =>
      void remove.run(recipient, upTo),
  }
}
