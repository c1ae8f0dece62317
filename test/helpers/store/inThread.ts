import type { DatabaseSync } from 'node:sqlite'
import { GroupCommit } from '../../../adapters/store/sqlite/commit/groupCommit.ts'
import type { Writer } from '../../../adapters/store/sqlite/commit/writer.ts'
import { errorOf, reading } from '../../../adapters/store/sqlite/failure.ts'
import { createResponseReads, type Responses } from '../../../adapters/store/sqlite/payments/responses.ts'
import type { ReaderThread } from '../../../adapters/store/sqlite/reader/readerThread.ts'
import { createReads } from '../../../adapters/store/sqlite/reader/reads.ts'
import type { Durability } from '../../../core/ports/store/ledger.ts'

/**
 * The writer of a store without its thread: the same operations, one write a group, each committed when it returns.
 *
 * @param onCommit is called for each committed write, before its caller is notified
 */
export function createInThreadWriter(
  connection: DatabaseSync,
  onCommit: (durability: Durability) => void = () => {},
): Writer {
  const commit = new GroupCommit(connection, false)
  return {
    async write(name, args, durability = 'flushed') {
      const { results, failures } = commit.run([[name, args, false]])
      const failure = failures?.get(0)
      if (failure !== undefined) throw errorOf(failure)
      onCommit(durability)
      return results[0] as never
    },
    async close() {},
  }
}

/** The readers of a store without their threads. */
export function createInThreadReaders(reader: DatabaseSync): { thread: ReaderThread; responses: Responses } {
  const reads = createReads(reader)
  const responseOf = createResponseReads(reader)
  const thread: ReaderThread = {
    read: async (...steps) => reading(() => reads(steps)),
    of: () => thread,
    async close() {},
  }
  const requests = new Map<number, ReturnType<Responses['of']>>()
  const responses: Responses = {
    of(row) {
      const shared = requests.get(row) ?? (async () => reading(() => responseOf(row)))()
      requests.set(row, shared)
      return shared.finally(() => requests.delete(row))
    },
    async close() {},
  }
  return { thread, responses }
}
