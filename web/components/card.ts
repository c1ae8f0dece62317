import { type Children, html } from '../html.ts'

export interface CardProps {
  readonly title?: Children
  /** Shown beside the title, at the end of its line. */
  readonly actions?: Children
  readonly children?: Children
  /** Heading level of the title. Default: 2. */
  readonly level?: 2 | 3
  readonly class?: string
}

/** A surface that groups related content. */
export function Card({ title, actions, children, level = 2, class: more = '' }: CardProps) {
  return html`<section class=${`card ${more}`.trim()}>
    ${title && html`<header>${level === 2 ? html`<h2>${title}</h2>` : html`<h3>${title}</h3>`}${actions}</header>`}
    ${children}
  </section>`
}

/** The meaning of a color. The text always states it too. */
export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info'

/** A short label with a state or a kind. */
export const Badge = ({ tone = 'plain', children }: { readonly tone?: Tone; readonly children: Children }) =>
  html`<span class="badge" data-tone=${tone}>${children}</span>`

export interface NoticeProps {
  readonly tone?: Tone
  /** What happened. */
  readonly title: Children
  /** What to do now. */
  readonly children?: Children
  /** The request's id, by which support finds the failure in the log. */
  readonly requestId?: string | undefined
  /** True if screen readers announce it when it appears. */
  readonly isAlert?: boolean
}

/** States what happened and what to do. It is also the error state of a view. */
export const Notice = ({ tone = 'plain', title, children, requestId, isAlert = false }: NoticeProps) =>
  html`<div class="notice" data-tone=${tone} role=${isAlert ? 'alert' : undefined}>
    <strong>${title}</strong>
    ${children && html`<div>${children}</div>`}
    ${requestId && html`<p class="small">Request <code>${requestId}</code></p>`}
  </div>`

/** The empty state of a view. It states what will be here and what to do next. */
export const Empty = ({ title, children }: { readonly title: string; readonly children?: Children }) =>
  html`<div class="empty"><strong>${title}</strong>${children}</div>`

export interface SkeletonProps {
  /** Number of placeholder lines or blocks. */
  readonly count?: number
  readonly isTall?: boolean
}

/** The loading state of a view, in the shape of its content. */
export const Skeleton = ({ count = 3, isTall = false }: SkeletonProps) =>
  html`<div class=${isTall ? 'skeleton tall' : 'skeleton'} role="status">
    <p class="visually-hidden">Loading</p>
    ${Array.from({ length: count }, () => html`<span></span>`)}
  </div>`

export interface AvatarProps {
  /** Name of the store. If there is no image, its first letter is shown. */
  readonly name: string
  readonly url?: string
  readonly isBig?: boolean
}

/**
 * A store's image over the first letter of its name. The letter is visible while the image loads. If the image does not load,
 * `startIslands` hides it.
 */
export function Avatar({ name, url = '', isBig = false }: AvatarProps) {
  const classes = isBig ? 'avatar big' : 'avatar'
  const [size, letter] = [isBig ? 72 : 32, [...name.trim()][0]?.toUpperCase() ?? '?']
  return html`<span class=${classes} aria-hidden="true">${letter}${
    url !== '' &&
    html`<img key=${url} src=${url} alt="" width=${size} height=${size} loading="lazy" referrerpolicy="no-referrer" />`
  }</span>`
}
