import type { DatabaseSync } from 'node:sqlite'
import {
  createTemplates,
  type Reads,
  type Request,
  type Slot,
  type Steps,
} from '../repositories/transaction.ts'
import { reading } from './failure.ts'
import type { ReaderThread } from './reader/readerThread.ts'

/** Runs the requests of methods on a connection. Statements stay prepared. */
export function createAnswering(database: DatabaseSync): (request: Request, storeNowMs: number) => unknown {
  const of = createTemplates('sqlite', (text) => {
    const statement = database.prepare(text)
    // Statements with RETURNING are run in full, because they check their foreign keys only after the last row.
    const isRead = /^\s*(SELECT|WITH)\b/.test(text)
    return { statement, isRead }
  })
  return (request, storeNowMs) => {
    // SQLite needs no lock, because it has one writing transaction at a time.
    if (request.does === 'hold') return undefined
    if (request.does === 'storeNow') return storeNowMs
    const { prepared, parameters } = of(request.strings, request.slots)
    const { statement, isRead } = prepared
    if (request.does === 'run') return Number(statement.run(...parameters).changes)
    if (request.does === 'one' && isRead) return statement.get(...parameters)
    const rows = statement.all(...parameters)
    return request.does === 'one' ? rows[0] : rows
  }
}

/** Runs a method to its end. */
export function runSteps<T>(steps: Steps<T>, respond: (request: Request) => unknown): T {
  let step = steps.next()
  while (!step.done) step = steps.next(respond(step.value))
  return step.value
}

/**
 * Reads that take milliseconds, in a thread of their own.
 * @param requester a store or a link; their reads take turns
 */
export function threadReadsOf(thread: Pick<ReaderThread, 'of'>, requester: string): Reads {
  const all = async (strings: TemplateStringsArray, slots: readonly Slot[]) => {
    const { prepared, parameters } = textOf(strings, slots)
    return (await thread.of(requester).read({ sql: prepared, parameters }))[0]!
  }
  return {
    one: async <Row>(strings: TemplateStringsArray, ...slots: Slot[]) =>
      (await all(strings, slots))[0] as Row | undefined,
    all: async <Row>(strings: TemplateStringsArray, ...slots: Slot[]) => (await all(strings, slots)) as Row[],
  }
}

const textOf = createTemplates('sqlite', (text) => text)

/** Lookups that take microseconds, on the main thread's connection. */
export function readsOf(reader: DatabaseSync): Reads {
  const respond = createAnswering(reader)
  return {
    one: async <Row>(strings: TemplateStringsArray, ...slots: Slot[]) =>
      reading(() => respond({ does: 'one', strings, slots }, 0) as Row | undefined),
    all: async <Row>(strings: TemplateStringsArray, ...slots: Slot[]) =>
      reading(() => respond({ does: 'all', strings, slots }, 0) as Row[]),
  }
}
