import htm from 'htm'
import { type ComponentChildren, h, type VNode } from 'preact'

/**
 * Markup as a tagged template: the same file runs in Node as it stands and in the browser after bundling. Every value is
 * text or an attribute's value, never markup.
 *
 * @example html`<p class="soft">${text}</p>`, html`<${Card} title="Sales">${rows}<//>`
 */
export const html = (htm as unknown as { bind(make: typeof h): Template }).bind(h)

/** One element: a template with several beside each other goes into another as a list. */
type Template = (pieces: TemplateStringsArray, ...values: unknown[]) => VNode

/** What stands between a component's tags. */
export type Children = ComponentChildren
