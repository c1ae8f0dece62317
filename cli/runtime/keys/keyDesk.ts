import { deserialize, serialize } from 'node:v8'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Leases } from '../../../core/ports/store/leases.ts'
import type { Letter, Letters } from '../../../core/ports/store/letters.ts'
import type { FromPrimary, FromWorker } from '../cluster/messages.ts'
import { createWorkerSettling, type WorkerSettling } from '../cluster/settleForWorker.ts'

/** Longer than anybody asks again. */
const KEPT_MS = 120_000

/** What is in a letter to the process that has a key. */
export interface Asked {
  /** The name of the sender's lease: while it has that, it waits for the answer. */
  readonly name: string
  readonly message: FromWorker
}

/** Where a process that has a key takes what other processes of the store ask it to verify and to settle. */
export interface KeyDesk {
  /** Gives up what is held for processes that are gone. */
  look(): Promise<void>
  /** The key is somebody else's from now on. */
  close(): void
}

export interface KeyDeskParts {
  readonly letters: Letters
  readonly leases: Pick<Leases, 'holderOf'>
  /** Settlers that this process has itself. */
  readonly chains: Chains
  readonly log: Log
}

/** @param lease of the key, to which they write */
export function openKeyDesk(lease: number, { letters, leases, chains, log }: KeyDeskParts): KeyDesk {
  const askers = new Map<number, { readonly name: string; readonly settling: WorkerSettling }>()

  function askerOf(from: number, name: string): WorkerSettling {
    const known = askers.get(from)
    if (known !== undefined) return known.settling
    // An answer that does not get through is none: whoever waits for it asks again.
    const send = (message: FromPrimary) =>
      void letters
        .post([{ to: from, from: lease, body: serialize(message) }])
        .catch((err: unknown) => log.warn({ err }, 'could not answer a process that asked for a settlement'))
    const settling = createWorkerSettling(chains, send, KEPT_MS)
    askers.set(from, { name, settling })
    return settling
  }

  function forget(from: number): void {
    askers.get(from)?.settling.lost()
    askers.delete(from)
  }

  const end = letters.listen(lease, ({ from, body }: Letter) => {
    const { name, message } = deserialize(body) as Asked
    askerOf(from, name).receive(message)
  })

  return {
    async look() {
      for (const [from, { name }] of askers) if ((await leases.holderOf(name))?.id !== from) forget(from)
    },
    close() {
      end()
      for (const from of [...askers.keys()]) forget(from)
    },
  }
}
