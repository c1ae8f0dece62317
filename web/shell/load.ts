import { useCallback, useEffect, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Notice, Skeleton } from '../components/card.ts'
import { type Children, html } from '../html.ts'
import { ApiFault } from './api.ts'

/** Data that is loaded, or the error. */
export interface Loaded<T> {
  readonly data: T | undefined
  readonly fault: ApiFault | undefined
  /** Loads again. The current data stays until the response arrives. */
  readonly reload: () => void
  /** Shows this data instead, such as the response to a change. */
  readonly set: (data: T) => void
}

/** Loads data when a view appears, and again when one of `inputs` changes. The response to an outdated request is dropped. */
export function useLoad<T>(load: () => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data?: T; fault?: ApiFault }>({})
  const [round, setRound] = useState(0)
  useEffect(() => {
    let isOver = false
    if (round === 0) setState({})
    load().then(
      (data) => isOver || setState({ data }),
      (fault: unknown) => isOver || setState({ fault: faultOf(fault) }),
    )
    return () => {
      isOver = true
    }
  }, [...inputs, round])
  const reload = useCallback(() => setRound((before) => before + 1), [])
  const set = useCallback((data: T) => setState({ data }), [])
  return { data: state.data, fault: state.fault, reload, set }
}

export const faultOf = (thrown: unknown): ApiFault =>
  thrown instanceof ApiFault
    ? thrown
    : new ApiFault(0, { code: 'FAILED', message: thrown instanceof Error ? thrown.message : String(thrown) })

export interface LoadProps<T> {
  readonly of: Loaded<T>
  /** Placeholder in the shape of the content. */
  readonly skeleton?: Children
  readonly children: (data: T) => Children
}

/** Shows the loading state, the error, or the data. */
export function Load<T>({ of: { data, fault, reload }, skeleton, children }: LoadProps<T>) {
  if (data !== undefined) return html`${children(data)}`
  if (fault === undefined) return html`${skeleton ?? html`<${Skeleton} count=${5} />`}`
  return html`<${Notice} tone="bad" title="The data could not be loaded" requestId=${fault.requestId} isAlert=${true}>
    <p>${fault.message}</p>
    <p><${Button} size="small" onClick=${reload}>Try again<//></p>
  <//>`
}

/** The work of a button. */
export interface Action {
  readonly isBusy: boolean
  readonly fault: ApiFault | undefined
  readonly run: (work: () => Promise<unknown>) => Promise<void>
  readonly clear: () => void
}

/** Runs one piece of work at a time, and shows its error until the next one starts. */
export function useAction(): Action {
  const [state, setState] = useState<{ isBusy: boolean; fault?: ApiFault }>({ isBusy: false })
  const run = async (work: () => Promise<unknown>) => {
    if (state.isBusy) return
    setState({ isBusy: true })
    try {
      await work()
      setState({ isBusy: false })
    } catch (thrown) {
      setState({ isBusy: false, fault: faultOf(thrown) })
    }
  }
  const clear = () => setState((before) => (before.isBusy ? before : { isBusy: false }))
  return { isBusy: state.isBusy, fault: state.fault, run, clear }
}

/** The error of an action. Shows nothing if the action succeeded. */
export const Fault = ({ of: { fault } }: { readonly of: Action }) =>
  fault === undefined
    ? null
    : html`<${Notice} tone="bad" title=${fault.message} requestId=${fault.requestId} isAlert=${true} />`
