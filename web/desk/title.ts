import { type Children, html } from '../html.ts'

export interface TitleProps {
  readonly children: Children
  /** Above it: where it belongs. */
  readonly from?: { readonly href: string; readonly title: string }
  /** Beside it: the one or two things to do. */
  readonly actions?: Children
}

/** The heading of a view. */
export const Title = ({ children, from, actions }: TitleProps) =>
  html`<header class="desk-title">
    <div>
      ${from && html`<a class="desk-back" href=${from.href}>← ${from.title}</a>`}
      <h1 dir="auto">${children}</h1>
    </div>
    ${actions && html`<div class="row">${actions}</div>`}
  </header>`
