import { type ComponentType, createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { type Children, html } from '../html.ts'

/** True below a component that runs in the browser: what is an island elsewhere is a plain part of it. */
export const InsideIsland = createContext(false)

export interface IslandComponent<Props> {
  (props: Props): ReturnType<typeof html>
  readonly island: { readonly name: string; readonly component: ComponentType<Props> }
}

/**
 * A component that the server renders and the browser wakes up. Its props travel in an attribute, so they are JSON, and
 * public to whoever gets the page.
 * Its place is an element of no meaning, which may stand in a paragraph too.
 *
 * @example export const CopyButton = island('copy-button', CopyButtonView)
 */
export function island<Props extends object>(
  name: string,
  component: ComponentType<Props>,
): IslandComponent<Props> {
  const Island = (props: Props) =>
    useContext(InsideIsland)
      ? html`<${component} ...${props} />`
      : html`<tg-island class="island" data-island=${name} data-props=${JSON.stringify(props)}
          ><${InsideIsland.Provider} value=${true}><${component} ...${props} /><//></tg-island>`
  return Object.assign(Island, { island: { name, component } })
}

export interface SlotProps {
  readonly name: string
  readonly props?: object
  /** What stands there until the browser draws, and for good where it runs no scripts. */
  readonly children?: Children
}

/** A place that only the browser fills, with a component that the server does not know. */
export const Slot = ({ name, props = {}, children }: SlotProps) =>
  html`<tg-island class="island" data-island=${name} data-props=${JSON.stringify(props)} data-fresh>${children}</tg-island>`
