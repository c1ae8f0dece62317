import { type Children, html } from '../html.ts'

/** The empty state of a view: what will stand here, and the one thing to do now. */
export const Empty = ({ title, children }: { readonly title: string; readonly children?: Children }) =>
  html`<div class="empty"><strong>${title}</strong>${children}</div>`
