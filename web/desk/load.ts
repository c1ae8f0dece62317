import { useCallback, useEffect, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Notice } from '../components/notice.ts'
import { Skeleton } from '../components/skeleton.ts'
import { type Children, html } from '../html.ts'
import { ApiFault } from './api.ts'

/** What is asked for, as far as it is known. */
export interface Loaded<T> {
  readonly data: T | undefined
  readonly fault: ApiFault | undefined
  /** Asks again; what is shown stays until the answer is there. */
  readonly reload: () => void
  /** Shows this instead, such as what a change answered. */
  readonly set: (data: T) => void
}

/** Asks when a view appears, and again when one of `inputs` changes. A late answer to an old question is dropped. */
export function useLoad<T>(ask: () => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data?: T; fault?: ApiFault }>({})
  const [round, setRound] = useState(0)
  useEffect(() => {
    let isOver = false
    if (round === 0) setState({})
    ask().then(
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
  /** In the shape of what comes. */
  readonly skeleton?: Children
  readonly children: (data: T) => Children
}

/** Loading, error, or what was asked for. */
export function Load<T>({ of: { data, fault, reload }, skeleton, children }: LoadProps<T>) {
  if (data !== undefined) return html`${children(data)}`
  if (fault === undefined) return html`${skeleton ?? html`<${Skeleton} count=${5} />`}`
  return html`<${Notice} tone="bad" title="This could not be loaded" requestId=${fault.requestId} isAlert=${true}>
    <p>${fault.message}</p>
    <p><${Button} size="small" onClick=${reload}>Try again<//></p>
  <//>`
}

/** Something that a press of a button does. */
export interface Action {
  readonly isBusy: boolean
  readonly fault: ApiFault | undefined
  readonly run: (work: () => Promise<unknown>) => Promise<void>
  /** Forgets why it failed. */
  readonly clear: () => void
}

/** Runs one piece of work at a time, and keeps why it failed until the next. */
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

/** Why an action failed; nothing where it did not. */
export const Fault = ({ of: { fault } }: { readonly of: Action }) =>
  fault === undefined
    ? null
    : html`<${Notice} tone="bad" title=${fault.message} requestId=${fault.requestId} isAlert=${true} />`
