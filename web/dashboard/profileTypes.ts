export interface SocialAnswer {
  readonly type: string
  readonly url: string
  readonly isVisible: boolean
}

/** What the API says of the own store, as far as the views read it. */
export interface ProfileAnswer {
  readonly username: string
  readonly displayName: string
  readonly bio: string
  readonly avatarUrl: string
  readonly socials: readonly SocialAnswer[]
  readonly developerModeEnabled: boolean
  readonly payout: {
    readonly base: string | null
    readonly solana: string | null
    readonly warnings?: readonly string[]
  }
}
