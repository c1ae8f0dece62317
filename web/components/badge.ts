import { type Children, html } from '../html.ts'

/** What a colour says. Never the colour alone: the words say it too. */
export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info'

/** A word about a thing: its state, its kind. */
export const Badge = ({ tone = 'plain', children }: { readonly tone?: Tone; readonly children: Children }) =>
  html`<span class="badge" data-tone=${tone}>${children}</span>`
