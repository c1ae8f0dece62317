import { type Children, html } from '../html.ts'
import type { Tone } from './badge.ts'

export interface NoticeProps {
  readonly tone?: Tone
  /** What happened. */
  readonly title: string
  /** What to do now. */
  readonly children?: Children
  /** By which support finds it in the log. */
  readonly requestId?: string | undefined
  /** Read out as soon as it appears. */
  readonly isAlert?: boolean
}

/** Says what happened and what to do; the error state of a view. */
export const Notice = ({ tone = 'plain', title, children, requestId, isAlert = false }: NoticeProps) =>
  html`<div class="notice" data-tone=${tone} role=${isAlert ? 'alert' : undefined}>
    <strong>${title}</strong>
    ${children && html`<div>${children}</div>`}
    ${requestId && html`<p class="small">Request <code>${requestId}</code></p>`}
  </div>`
