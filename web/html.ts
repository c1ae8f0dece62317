import htm from 'htm'
import { type ComponentChildren, h, type VNode } from 'preact'

/**
 * HTML as a tagged template. The same file runs unchanged in Node, and bundled in the browser. Every value becomes text or an
 * attribute value, never markup.
 *
 * @example html`<p class="soft">${text}</p>`, html`<${Card} title="Sales">${rows}<//>`
 */
export const html = (htm as unknown as { bind(make: typeof h): Template }).bind(h)

/** A template has one root element. Several siblings are passed as a list. */
type Template = (pieces: TemplateStringsArray, ...values: unknown[]) => VNode

/** Content between a component's tags. */
export type Children = ComponentChildren
