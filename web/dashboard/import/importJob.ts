import { useEffect, useRef, useState } from 'preact/hooks'
import type { ApiFault } from '../../shell/api.ts'
import { faultOf } from '../../shell/load.ts'
import { useSeller } from '../seller.ts'

/** Result of one operation, from the gateway. */
export interface OperationResponse {
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

interface ImportResponse {
  readonly source: string
  readonly server: string
  readonly otherServers: readonly string[]
  readonly operations: readonly OperationResponse[]
  readonly nextOffset: number | null
}

/** One operation in the report. */
export interface ReportRow extends OperationResponse {
  /** True if the operation was carried out. False in a preview. */
  readonly isDone: boolean
}

/** State of an import. */
export interface ImportState {
  /**
   * `looked`: the preview is shown. `stopped`: only a part of the import is done, because the seller stopped it or a request
   * failed.
   */
  readonly phase: 'none' | 'looking' | 'looked' | 'making' | 'stopped' | 'done'
  readonly rows: readonly ReportRow[]
  readonly source: string
  readonly server: string
  readonly otherServers: readonly string[]
  /** Number of operations that need a link. The next field is how many of them are done. */
  readonly total: number
  readonly done: number
  readonly fault?: ApiFault | undefined
}

export interface ImportJob extends ImportState {
  /** Requests a preview of what the import does with each operation. @throws {ApiFault} */
  readonly preview: (body: object) => Promise<void>
  /** Carries out the preview. If the import was stopped, it continues at that point. */
  readonly make: () => void
  readonly stop: () => void
  /** Discards the preview, because the form has changed since. */
  readonly forget: () => void
}

const nothing: ImportState = {
  phase: 'none',
  rows: [],
  source: '',
  server: '',
  otherServers: [],
  total: 0,
  done: 0,
}

/**
 * An import. It is previewed first, and then carried out in as many requests as needed. Finished links stay, and no link is
 * created twice.
 */
export function useImport(): ImportJob {
  const { api } = useSeller()
  const [state, setState] = useState(nothing)
  const body = useRef<object>({})
  const isWanted = useRef(false)
  useEffect(() => () => void (isWanted.current = false), [])
  const send = (more: object) =>
    api<ImportResponse>('POST', '/api/v1/links/import', { ...body.current, ...more })

  async function preview(given: object) {
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
        const { operations, nextOffset }: ImportResponse = await send({ offset })
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
    preview,
    // After a failure, the import starts from the beginning. This is fast, because existing links stay unchanged.
    make: () => void make(state.phase === 'stopped' ? state.done : 0),
    stop() {
      isWanted.current = false
    },
    forget: () => setState(nothing),
  }
}

export const keyOf = ({ operation, operationId, action }: OperationResponse): string =>
  `${action === 'gone' ? 'gone ' : ''}${operation} ${operationId}`

/** Replaces preview rows with the results. */
function withDone(rows: readonly ReportRow[], operations: readonly OperationResponse[]): ReportRow[] {
  const done = new Map(operations.map((one) => [keyOf(one), { ...one, isDone: true }]))
  const kept = rows.map((row) => done.get(keyOf(row)) ?? row)
  const known = new Set(rows.map(keyOf))
  return [...kept, ...[...done].flatMap(([key, row]) => (known.has(key) ? [] : [row]))]
}
