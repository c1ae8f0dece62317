import { useEffect, useRef, useState } from 'preact/hooks'
import type { ApiFault } from '../../desk/api.ts'
import { faultOf } from '../../desk/load.ts'
import { useSeller } from '../seller.ts'

/** What the service says of one operation. */
export interface OperationAnswer {
  readonly operation: string
  readonly operationId: string | null
  readonly action: 'create' | 'change' | 'keep' | 'left_out' | 'gone' | 'failed'
  readonly price: string | null
  readonly title: string | null
  readonly slug: string | null
  readonly linkId: string | null
  readonly changes: readonly string[]
  readonly reason: string | null
}

interface ImportAnswer {
  readonly source: string
  readonly server: string
  readonly otherServers: readonly string[]
  readonly operations: readonly OperationAnswer[]
  readonly nextOffset: number | null
}

/** An operation in the report. */
export interface ReportRow extends OperationAnswer {
  /** It was carried out; before, it is foretold. */
  readonly isDone: boolean
}

/** How an import stands. */
export interface ImportState {
  /** `looked`: foretold. `stopped`: a part is done, by the seller's wish or because of a fault. */
  readonly phase: 'none' | 'looking' | 'looked' | 'making' | 'stopped' | 'done'
  readonly rows: readonly ReportRow[]
  readonly source: string
  readonly server: string
  readonly otherServers: readonly string[]
  /** Operations that links are made or kept of, and how many of them are done. */
  readonly total: number
  readonly done: number
  readonly fault?: ApiFault | undefined
}

export interface ImportJob extends ImportState {
  /** Asks what would become of each operation. @throws {ApiFault} */
  readonly look: (body: object) => Promise<void>
  /** Makes what was foretold; from where it was, if it has stopped. */
  readonly make: () => void
  readonly stop: () => void
  /** What was foretold is of another form than the one that is filled in now. */
  readonly forget: () => void
}

const nothing: ImportState = {
  ...{ phase: 'none', rows: [], source: '', server: '', otherServers: [], total: 0, done: 0 },
}

/** An import: looked at first, then made in as many requests as it takes. What is made stays, and is never made twice. */
export function useImport(): ImportJob {
  const { ask } = useSeller()
  const [state, setState] = useState(nothing)
  const body = useRef<object>({})
  const isWanted = useRef(false)
  useEffect(() => () => void (isWanted.current = false), [])
  const send = (more: object) =>
    ask<ImportAnswer>('POST', '/api/v1/links/import', { ...body.current, ...more })

  async function look(given: object) {
    body.current = given
    setState({ ...nothing, phase: 'looking' })
    try {
      const { operations, nextOffset: _, ...rest } = await send({ dryRun: true })
      const total = operations.filter(({ action }) => action !== 'left_out' && action !== 'gone').length
      const rows = operations.map((one) => ({ ...one, isDone: false }))
      setState({ ...rest, rows, total, done: 0, phase: 'looked' })
    } catch (thrown) {
      setState(nothing)
      throw thrown
    }
  }

  async function make(from: number) {
    isWanted.current = true
    setState((before) => ({ ...before, phase: 'making', done: from, fault: undefined }))
    try {
      for (let offset: number | null = from; offset !== null; ) {
        if (!isWanted.current) return setState((before) => ({ ...before, phase: 'stopped' }))
        const { operations, nextOffset }: ImportAnswer = await send({ offset })
        setState((before) => ({
          ...before,
          rows: withDone(before.rows, operations),
          done: nextOffset ?? before.total,
        }))
        offset = nextOffset
      }
      setState((before) => ({ ...before, phase: 'done' }))
    } catch (thrown) {
      setState((before) => ({ ...before, phase: 'stopped', fault: faultOf(thrown) }))
    }
  }

  return {
    ...state,
    look,
    // Whoever tries again begins at the start: what is there is kept, and takes no time.
    make: () => void make(state.phase === 'stopped' ? state.done : 0),
    stop() {
      isWanted.current = false
    },
    forget: () => setState(nothing),
  }
}

export const keyOf = ({ operation, operationId, action }: OperationAnswer): string =>
  `${action === 'gone' ? 'gone ' : ''}${operation} ${operationId}`

/** What was carried out stands where it was foretold. */
function withDone(rows: readonly ReportRow[], operations: readonly OperationAnswer[]): ReportRow[] {
  const done = new Map(operations.map((one) => [keyOf(one), { ...one, isDone: true }]))
  const kept = rows.map((row) => done.get(keyOf(row)) ?? row)
  const known = new Set(rows.map(keyOf))
  return [...kept, ...[...done].flatMap(([key, row]) => (known.has(key) ? [] : [row]))]
}
