import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { type Action, Fault, useAction } from '../desk/load.ts'
import { html } from '../html.ts'

/** A page of a list, and where the next one begins; null on the last one. */
export interface PageOf<Row> {
  readonly rows: readonly Row[]
  readonly nextCursor: string | null
}

/** A list as far as it was asked for. */
export interface Pages<Row> {
  readonly rows: readonly Row[]
  readonly hasMore: boolean
  readonly more: () => void
  readonly action: Action
}

/** A list whose first page is there; each press of {@link More} adds the next one. */
export function usePages<Row>(first: PageOf<Row>, ask: (cursor: string) => Promise<PageOf<Row>>): Pages<Row> {
  const [rows, setRows] = useState(first.rows)
  const [cursor, setCursor] = useState(first.nextCursor)
  const action = useAction()
  const more = () =>
    void action.run(async () => {
      const page = await ask(cursor ?? '')
      setRows((before) => [...before, ...page.rows])
      setCursor(page.nextCursor)
    })
  return { rows, hasMore: cursor !== null, more, action }
}

/** Below a list: asks for the next page while there is one. */
export const More = ({ of: { hasMore, more, action } }: { readonly of: Pages<unknown> }) =>
  html`<${Fault} of=${action} />
    ${hasMore && html`<div class="row"><${Button} isBusy=${action.isBusy} onClick=${more}>Show more<//></div>`}`
