import { type ComponentType, createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { type Children, html } from '../html.ts'

/** True inside a component that runs in the browser. An island inside another island is rendered as a plain component. */
export const InsideIsland = createContext(false)

export interface IslandComponent<Props> {
  (props: Props): ReturnType<typeof html>
  readonly island: { readonly name: string; readonly component: ComponentType<Props> }
}

/**
 * A component that the server renders and the browser hydrates. Its props are stored in an attribute, so they must be JSON, and
 * every reader of the page can see them. Its element has no semantics, so it may also be used inside a paragraph.
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
  /** Shown until the browser renders the component, and permanently without JavaScript. */
  readonly children?: Children
}

/** A placeholder that only the browser fills, with a component that the server does not import. */
export const Slot = ({ name, props = {}, children }: SlotProps) =>
  html`<tg-island class="island" data-island=${name} data-props=${JSON.stringify(props)} data-fresh>${children}</tg-island>`
