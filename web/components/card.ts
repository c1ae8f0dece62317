import { type Children, html } from '../html.ts'

export interface CardProps {
  readonly title?: Children
  /** Beside the title, at the end of its line. */
  readonly actions?: Children
  readonly children?: Children
  /** Level of the title's heading. Default: 2. */
  readonly level?: 2 | 3
  readonly class?: string
}

/** A surface with what belongs together. */
export function Card({ title, actions, children, level = 2, class: more = '' }: CardProps) {
  return html`<section class=${`card ${more}`.trim()}>
    ${title && html`<header>${level === 2 ? html`<h2>${title}</h2>` : html`<h3>${title}</h3>`}${actions}</header>`}
    ${children}
  </section>`
}
