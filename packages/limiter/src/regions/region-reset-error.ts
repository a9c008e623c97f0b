/** The error of a reset that not all regions confirmed. */
import { SluiceError } from '@sluice/core'

/** A reset that was done in the own region, but not confirmed by all others. */
export class RegionResetError extends SluiceError {
  readonly regions: readonly string[]

  constructor(regions: readonly string[]) {
    const names = regions.join(', ')
    super(
      'STORE_FAILED',
      `The counter was reset in this region; not confirmed by ${names}: reset it again`,
    )
    this.regions = regions
  }
}
